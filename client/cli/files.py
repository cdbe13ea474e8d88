"""Files that `apply` and `create` read: which documents they hold and what each is."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, cast

from client.errors import InputError

if TYPE_CHECKING:
    import yaml

ENDINGS = (".yaml", ".yml", ".json")


HEAD_BYTES = 65_536
"""How much of a file is looked at to see whose it is."""

_OURS = re.compile(
    rb"\A\s*\Z"  # nothing at all; told here
    rb"|^(?:name|parallelism|roles|levels|node_types|scale_up|queues)[ \t]*:"
    rb'|[{,]\s{0,80}"(?:parallelism|roles|levels|node_types)"\s*:'
    rb'|\A\s*\{\s*"(?:name|nodes|queues)"\s*:',
    re.MULTILINE,
)
_NODES = re.compile(rb"^nodes[ \t]*:", re.MULTILINE)
_MODEL = re.compile(rb"^(?:blocks|switches)[ \t]*:", re.MULTILINE)


QUEUE_DEFAULTS: Mapping[str, object] = {
    "parent": None,
    "quota_gpus": None,
    "limit_gpus": None,
    "quota_by_model": {},
    "limit_by_model": {},
    "weight": 1.0,
    "max_priority": None,
    "max_pending": None,
    "namespaces": [],
    "closed": False,
}
"""Fields by which a queue is told, and what holds where they are not stated: as the service has
it for `PUT /v1/queues/{name}`."""


class Content(Enum):
    JOB = auto()
    INVENTORY = auto()
    QUEUE = auto()
    WHATIF = auto()
    """Jobs and changes as `/v1/whatif` takes them."""
    FOREIGN = auto()
    """An inventory in a format that only the service knows how to read."""


@dataclass(frozen=True, slots=True)
class Document:
    """One thing to send.

    Attributes:
        source: Where it came from, for messages: `jobs.yaml`, `jobs.yaml document 2`.
        content: What it looks like.
        value: As parsed.
        raw: The file's own bytes where this is all there is in it, so that the service can
            name its lines; None otherwise.
    """

    source: str
    content: Content
    value: Mapping[str, object]
    raw: bytes | None = None


def read_raw(names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of each file, directories being opened up, `-` being standard input.

    Raises:
        InputError: If a file cannot be read, or a directory holds no YAML or JSON.
    """
    for name in names:
        if name == "-":
            yield "standard input", sys.stdin.buffer.read()
            continue
        for path in _files(Path(name)):
            try:
                yield str(path), path.read_bytes()
            except OSError as error:
                raise InputError(f"{path}: {error.strerror}") from None


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix in ENDINGS and file.is_file())
    if not found:
        raise InputError(f"{path}: no file in it ends in {', '.join(ENDINGS)}")
    return found


def read_documents(
    names: Sequence[str], *, with_foreign: bool = False, with_whatif: bool = False
) -> list[Document]:
    """Every document of the files, in order, with what it is.

    Args:
        with_foreign: Take a file that shows no sign of being ours for one of another format.
        with_whatif: Take what has `changes`, or `jobs`, for the body of a what-if.

    Raises:
        InputError: If a file is not YAML, or a document is no job, inventory or queue.
    """
    return [
        document
        for name, raw in read_raw(names)
        for document in (
            [Document(name, Content.FOREIGN, {}, raw)]
            if with_foreign and is_foreign(raw)
            else _documents(name, raw, with_whatif=with_whatif)
        )
    ]


def is_foreign(raw: bytes) -> bool:
    """Whether nothing at a file's beginning is what jobs and inventories of Podyard begin with."""
    head = raw[:HEAD_BYTES]
    is_map = bool(_NODES.search(head)) and not _MODEL.search(head)
    return not is_map and not _OURS.search(head)


def _documents(name: str, raw: bytes, *, with_whatif: bool) -> list[Document]:
    values = [value for value in _parsed(name, raw) if value is not None]
    if not values:
        raise InputError(f"{name}: nothing in it")
    if len(values) == 1:
        return _queues(name, values[0]) or [
            _document(name, values[0], raw, with_whatif=with_whatif)
        ]
    found: list[Document] = []
    for number, value in enumerate(values, 1):
        source = f"{name} document {number}"
        queues = _queues(source, value)
        found += queues or [_document(source, value, None, with_whatif=with_whatif)]
    return found


def _queues(source: str, value: object) -> list[Document]:
    """The queues of a document that is nothing but a list of them, under `queues`."""
    if not isinstance(value, dict) or list(value) != ["queues"]:
        return []
    items = value["queues"]
    if not isinstance(items, list) or not items:
        raise InputError(f"{source}: queues: a list of queues is needed, not a {_kind(items)}")
    found = []
    for number, item in enumerate(items):
        at = f"{source} queues[{number}]"
        if not isinstance(item, dict):
            raise InputError(f"{at}: a queue is a mapping, not a {_kind(item)}")
        found.append(Document(at, Content.QUEUE, item))
    return found


def _document(source: str, value: object, raw: bytes | None, *, with_whatif: bool) -> Document:
    if not isinstance(value, dict):
        raise InputError(f"{source}: a job or an inventory is a mapping, not a {_kind(value)}")
    if with_whatif and ("changes" in value or "jobs" in value):
        return Document(source, Content.WHATIF, value)
    if "name" in value and ("parallelism" in value or "roles" in value):
        return Document(source, Content.JOB, value)
    if "name" in value and (value.get("kind") == "Queue" or QUEUE_DEFAULTS.keys() & value.keys()):
        fields = {key: field for key, field in value.items() if key != "kind"}
        return Document(source, Content.QUEUE, fields)
    if "levels" in value or "nodes" in value:
        return Document(source, Content.INVENTORY, value, raw)
    keys = ", ".join(map(str, list(value)[:6]))
    raise InputError(
        f"{source}: neither a job ('name' with 'parallelism' or 'roles') nor an inventory "
        f"('levels' and 'nodes') nor a queue ('name' with 'kind: Queue'); its keys are {keys}"
    )


def _kind(value: object) -> str:
    if isinstance(value, list):
        return "list"
    return "text" if isinstance(value, str) else "single value"


def _parsed(name: str, raw: bytes) -> list[object]:
    import yaml

    try:
        text = raw.decode("utf-8-sig")
        return list(yaml.load_all(text, Loader=_loader()))
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8 at byte {error.start}") from None
    except yaml.YAMLError as error:
        raise InputError(f"{name}: not YAML: {_one_line(error)}") from None
    except (RecursionError, ValueError, TypeError) as error:
        # Too deep, a date such as 2026-13-40, a mapping as a key.
        raise InputError(f"{name}: not YAML that can be read: {error}") from None


def parse_one(text: str) -> object:
    """The value of a YAML text that the service wrote.

    Raises:
        InputError: If it is not one document of YAML.
    """
    values = _parsed("the service's answer", text.encode())
    if len(values) != 1:
        raise InputError(f"the service's answer holds {len(values)} documents")
    return values[0]


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _loader() -> "type[yaml.SafeLoader]":
    """A safe loader, in C where there is one, that reads numbers as YAML 1.2 does.

    By YAML 1.1 `70e9` is a text, `1:30` is ninety, `no` is false and a date is a date; in jobs
    and inventories they are a number, a text, a name and a text.
    """
    import yaml

    base = cast("type[yaml.SafeLoader]", getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    loader = cast("type[yaml.SafeLoader]", type("JobLoader", (base,), {}))
    kept = ("tag:yaml.org,2002:null", "tag:yaml.org,2002:merge")
    loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag in kept]
        for first, resolvers in base.yaml_implicit_resolvers.items()
    }
    for tag, pattern, first in _CORE_SCHEMA:
        loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), list(first))
    return loader


_CORE_SCHEMA = (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"^[-+]?(?:0|[1-9][0-9]*)$", "-+0123456789"),
    (
        "float",
        r"^[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$",
        "-+.0123456789",
    ),
    ("float", r"^(?:[-+]?\.inf|\.nan)$", "-+."),
)
"""Scalars of YAML 1.2 (section 10.3.2): tag, pattern, first characters.

Other than there, digits with a zero before them stay a text: they are names, as in `rack: 01`.
"""
