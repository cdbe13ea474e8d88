"""The formats a program reads: JSON, YAML and names; lists are written while they arrive."""

import json
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from itertools import chain

from client.cli.text import out


class Output(StrEnum):
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


def json_text(value: object, *, indent: int | None = 2) -> str:
    """JSON in ASCII: what could steer a terminal is written as an escape."""
    return json.dumps(value, indent=indent).replace("\x7f", "\\u007f")


def yaml_text(value: object) -> str:
    """YAML in ASCII, keys in the order of the service, without a final line break."""
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(value, Dumper=dumper, sort_keys=False, width=10_000)
    return text.removesuffix("\n").removesuffix("\n...")


def write_object(value: object, output: Output) -> None:
    """Write one object as JSON or YAML."""
    out(yaml_text(value) if output is Output.YAML else json_text(value))


def write_list(
    items: Iterable[Mapping[str, object]], revision: Callable[[], int | None], output: Output
) -> None:
    """Write `{items, revision}` as JSON or YAML, item by item.

    Args:
        revision: Asked after the last item; None leaves it out.
    """
    if output is Output.YAML:
        _write_yaml_list(items, revision)
    else:
        _write_json_list(items, revision)


def _write_json_list(
    items: Iterable[Mapping[str, object]], revision: Callable[[], int | None]
) -> None:
    previous: str | None = None
    for item in items:
        out('{\n  "items": [' if previous is None else previous + ",")
        previous = "\n".join("    " + line for line in json_text(item).split("\n"))
    if previous is not None:
        out(previous)
    last = revision()
    tail = "" if last is None else f',\n  "revision": {last}'
    out(('{\n  "items": []' if previous is None else "  ]") + tail + "\n}")


def _write_yaml_list(
    items: Iterable[Mapping[str, object]], revision: Callable[[], int | None]
) -> None:
    rest = iter(items)
    first = next(rest, None)
    if first is None:
        out("items: []")
    else:
        out("items:")
        for item in chain([first], rest):
            out(yaml_text([dict(item)]))
    if (last := revision()) is not None:
        out(f"revision: {last}")
