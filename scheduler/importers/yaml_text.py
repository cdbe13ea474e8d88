"""Text of unknown origin -> plain values: YAML and JSON, bounded in size, depth and expansion.

What a scalar means is told in `plain_values.resolve`. The work is linear in the text.
"""

import json
import re
from typing import NoReturn

from scheduler.errors import InventoryError, Problem
from scheduler.importers.plain_values import (
    MAX_DEPTH,
    MAX_VALUES,
    Document,
    Value,
    refuse_count,
    resolve,
)
from scheduler.importers.yaml_events import documents

MAX_BYTES = 32 * 1024 * 1024
"""Twice a description of 100,000 nodes with one entry each."""

_UNREADABLE = re.compile(
    "[^\x09\x0a\x0d\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_JSON_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|NaN|-?Infinity')
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read(
    text: str | bytes, *, max_bytes: int = MAX_BYTES, max_values: int = MAX_VALUES
) -> Document:
    """The one document of a text.

    Args:
        max_bytes: Size allowed, in UTF-8.
        max_values: Values allowed, those behind aliases counted each time. Of JSON, which is read
            ten times as fast, at least twice as many are allowed.

    Raises:
        InventoryError: If the text is too large, empty, not UTF-8, malformed, or holds more than
            one document, a key twice, a number that is not finite, a tag, too many values or more
            than `MAX_DEPTH` lists and mappings inside one another.
    """
    found = read_all(text, max_bytes=max_bytes, max_values=max_values)
    if not found:
        _refuse("the text is empty")
    if len(found) > 1:
        _refuse(f"the text holds {len(found)} documents; one is expected")
    return found[0]


def read_all(
    text: str | bytes, *, max_bytes: int = MAX_BYTES, max_values: int = MAX_VALUES
) -> list[Document]:
    """All documents of a text, divided by `---`; none if it is empty. Raises as `read` does."""
    text = decode(text, max_bytes=max_bytes)
    if text.lstrip()[:1] not in ("{", "["):
        return list(documents(text, max_values))
    try:
        return [_read_json(text, max_values)]
    except json.JSONDecodeError:
        return list(documents(text, max_values))
    except _OddError:
        # Outside its texts, which hold no tabs, JSON may have tabs where YAML may not.
        return list(documents(text.replace("\t", " "), max_values))


def decode(text: str | bytes, *, max_bytes: int = MAX_BYTES) -> str:
    """Text without a byte order mark, once its size, encoding and characters are checked.

    Raises:
        InventoryError: If it is too large, is not UTF-8 or has control characters.
    """
    size = len(text)
    if isinstance(text, str) and size <= max_bytes and not text.isascii():
        size = len(text.encode("utf-8", "surrogatepass"))
    if size > max_bytes:
        _refuse(f"the text has {size} bytes; at most {max_bytes} are allowed")
    if isinstance(text, bytes):
        text = _decoded(text)
    text = text.removeprefix("\ufeff")
    found = _UNREADABLE.search(text)
    if found:
        line = text.count("\n", 0, found.start()) + 1
        _refuse(f"line {line}: the character U+{ord(found[0]):04X} is not allowed in text")
    return text


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        _refuse(f"line {line}: byte 0x{raw[error.start]:02x} is not UTF-8 text")


class _OddError(Exception):
    """JSON with something to refuse; the YAML reader knows the line of it."""


def _read_json(text: str, max_values: int) -> Document:
    """Strict JSON, ten times as fast as YAML.

    Raises:
        JSONDecodeError: If the text is not JSON; it may be YAML all the same.
        _OddError: If the text holds what `read` refuses.
    """
    if text.count(",") > 2 * max_values:
        refuse_count(2 * max_values)
    try:
        value: Value = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=lambda constant: _refuse_constant(text, constant),
            parse_float=_number,
            parse_int=_number,
        )
    except RecursionError as error:
        raise _OddError from error
    if not _is_shallow(value):
        raise _OddError
    if _SURROGATE.search(text) and _UNREADABLE.search(json.dumps(value, ensure_ascii=False)):
        raise _OddError
    return Document(value)


def _unique(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise _OddError
    return mapping


def _refuse_constant(text: str, constant: str) -> NoReturn:
    # YAML would take these for text, so its reader cannot be asked for the line.
    tokens = _JSON_CONSTANT.finditer(text)
    start = next(token.start() for token in tokens if token[0] == constant)
    line = text.count("\n", 0, start) + 1
    _refuse(f"line {line}: {constant} is not allowed; a number is finite")


def _number(text: str) -> Value:
    try:
        return resolve(text)
    except ValueError as error:
        raise _OddError from error


def _is_shallow(value: Value) -> bool:
    """Whether at most `MAX_DEPTH` lists and mappings are inside one another."""
    row = [value]
    for _ in range(MAX_DEPTH):
        row = [child for container in row for child in _containers(container)]
        if not row:
            return True
    return False


def _containers(value: Value) -> list[Value]:
    """The lists and mappings in a list or mapping."""
    inner = value if isinstance(value, list) else ()
    children = value.values() if isinstance(value, dict) else inner
    return [child for child in children if isinstance(child, dict | list)]


def _refuse(message: str) -> NoReturn:
    raise InventoryError(Problem("", message))
