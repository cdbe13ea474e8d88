"""Right requests with something wrong in them: in a value of the body, the path, the bytes."""

import copy
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from tests.fuzz.request import Sent

TEXTS = (
    "", " ", "a", "A" * 70, "x" * 5_000, "\u0000", "\ud800", "\u202e", "\x1b[2J", "é", "日本",
    "a\nb", '\r\n{"event": "forged"}', "'; DROP TABLE jobs; --", '" OR 1=1 --', "%s%n", "{}",
    "../../etc/passwd", "a/b", "%2e%2e", "-1", "1e999", "9" * 40, "NaN", "null", "$(id)", "${HOME}",
    "<script>alert(1)</script>", "2026-12-01T00:00:00Z", "n[1-9999999]", "http://169.254.169.254/",
)  # fmt: skip
NUMBERS = (
    0, 1, -1, 2, 7, 255, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**30,
    0.5, -0.0, 1e-320, 1e308, float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
OTHERS: tuple[object, ...] = (
    None, True, False, [], {}, [[]], [None], {"": None}, [{}] * 3, {"a": {"a": {"a": []}}},
    ["a"] * 300,
)  # fmt: skip

DEEP = 3_000
"""Levels of brackets; Python's own reader gives up at about a third of that."""


def wrong(draw: random.Random, sent: Sent, names: Sequence[str]) -> Sent:
    """A request of which one to three things are something else."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        change = draw.choice((_in_body, _in_body, _in_body, _in_path, _in_query, _in_bytes))
        sent = change(draw, sent, names)
    return sent


def odd(draw: random.Random) -> object:
    """A value that nobody expects."""
    kind: Sequence[object] = draw.choice((TEXTS, NUMBERS, OTHERS))
    return copy.deepcopy(draw.choice(kind))


def places(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a value of JSON, the whole of it too."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, (*path, index))


def _in_body(draw: random.Random, sent: Sent, names: Sequence[str]) -> Sent:
    try:
        value = json.loads(sent.content)
    except (ValueError, RecursionError):
        return _in_bytes(draw, sent, names)
    path = draw.choice(list(places(value)))
    if not path:
        value = odd(draw) if draw.random() < 0.3 else _with_more(draw, value)
    else:
        at: Any = value
        for key in path[:-1]:
            at = at[key]
        how = draw.random()
        if how < 0.15:
            del at[path[-1]]
        elif how < 0.3:
            at[path[-1]] = _with_more(draw, at[path[-1]])
        elif how < 0.4:
            at[path[-1]] = draw.choice(names)
        else:
            at[path[-1]] = odd(draw)
    return sent.of(json.dumps(value).encode())


def _with_more(draw: random.Random, value: object) -> object:
    if isinstance(value, dict):
        return value | {str(draw.choice(TEXTS)): odd(draw)}
    if isinstance(value, list):
        return value * draw.choice((2, 50)) if value else [odd(draw)]
    return draw.choice(([value], {"value": value}, str(value)))


def _in_path(draw: random.Random, sent: Sent, names: Sequence[str]) -> Sent:
    path, mark, query = sent.target.partition("?")
    parts = path.split("/")
    index = draw.randrange(1, len(parts))
    word = draw.choice((str(odd(draw)), draw.choice(names), "..", ".", ""))
    parts[index] = quote(word.encode("utf-8", "replace")[:3_000], safe="" if len(word) > 2 else ".")
    return sent.to("/".join(parts) + mark + query)


def _in_query(draw: random.Random, sent: Sent, names: Sequence[str]) -> Sent:
    path, _, query = sent.target.partition("?")
    given = [pair.partition("=")[0] for pair in query.split("&") if pair]
    known = (*given, *QUERIES)
    value = draw.choice((str(odd(draw)), draw.choice(names)))
    pair = f"{draw.choice(known)}={quote(value.encode('utf-8', 'replace')[:3_000], safe='')}"
    return sent.to(f"{path}?{query}&{pair}" if query else f"{path}?{pair}")


QUERIES = (
    "limit", "cursor", "since", "namespace", "queue", "state", "node", "job", "level", "format",
    "dry_run", "prune", "month", "until", "step_s", "kind", "dryRun", "labelSelector",
    "fieldSelector", "resourceVersion", "continue", "fieldValidation", "fieldManager", "force",
    "propagationPolicy", "gracePeriodSeconds", "timeoutSeconds", "allowWatchBookmarks",
)  # fmt: skip


def _in_bytes(draw: random.Random, sent: Sent, _names: Sequence[str]) -> Sent:
    content = sent.content
    at = draw.randrange(len(content) + 1)
    change = draw.randrange(7)
    if change == 0:
        return sent.of(content[:at])
    if change == 1:
        return sent.of(
            content[:at] + draw.choice((b"\x00", b"\xff\xfe", b"\xc3", b"{", b'"', b","))
        )
    if change == 2:
        return sent.of(b"[" * DEEP)
    if change == 3:
        return sent.of(b'{"a":' * DEEP)
    if change == 4:
        return sent.of(content[:1] + b'"name":"one","name":"two",' + content[1:])
    if change == 5:
        return sent.of(b"\xef\xbb\xbf" + content)
    return sent.typed(draw.choice(TYPES))


TYPES = (
    "", "text/plain", "application/xml", "application/json; charset=utf-16", "application/yaml",
    "multipart/form-data", "application/merge-patch+json", "application/json-patch+json",
    "application/strategic-merge-patch+json", "application/apply-patch+yaml",
    "application/vnd.kubernetes.protobuf", "application/json;" * 50,
)  # fmt: skip
