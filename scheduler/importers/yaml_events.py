"""YAML events -> plain values, without recursion and with every limit checked on the way."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NoReturn

import yaml

from scheduler.errors import InventoryError, Problem
from scheduler.importers.plain_values import (
    MAX_DEPTH,
    Document,
    Value,
    refuse_count,
    resolve,
    shown,
)

# The same parser in C is ten times as fast; PyYAML is also built without it.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_STRING_TAGS = ("!", "tag:yaml.org,2002:str")
_CONTAINER_TAGS = ("!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")

_PATH_LENGTH_MAX = 200


def documents(text: str, max_values: int) -> Iterator[Document]:
    """Every document of the text, in order.

    Raises:
        InventoryError: As told in `yaml_text.read`.
    """
    builder = _Builder(max_values)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.ScalarEvent):
                builder.scalar(event)
            elif isinstance(event, yaml.MappingStartEvent):
                builder.open({}, event)
            elif isinstance(event, yaml.SequenceStartEvent):
                builder.open([], event)
            elif isinstance(event, yaml.CollectionEndEvent):
                builder.close()
            elif isinstance(event, yaml.AliasEvent):
                builder.alias(event)
            elif isinstance(event, yaml.DocumentEndEvent):
                yield builder.finish()
                builder = _Builder(max_values, builder.count)
    except yaml.YAMLError as error:
        raise InventoryError(Problem("", _malformed(error, text))) from error


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


def _malformed(error: yaml.YAMLError, text: str) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return f"not YAML: {error}"
    line, column = error.problem_mark.line, error.problem_mark.column
    if "".join(text.split("\n")[line : line + 1])[column : column + 1] == "\t":
        return f"line {line + 1}: a tab stands where only spaces may; indent with spaces"
    context = f" {error.context}" if error.context else ""
    return f"line {line + 1}, column {column + 1}: {error.problem}{context}"


@dataclass(slots=True)
class _Frame:
    """A list or mapping that is still open.

    Attributes:
        key: Of a mapping, the key whose value comes next.
        key_lines: Of a mapping, where each key was read.
        weight: Values inside, those behind aliases counted each time.
        depth: Lists and mappings inside one another in here, without itself.
    """

    value: list[Value] | dict[str, Value]
    anchor: str | None = None
    key: str | None = None
    key_lines: dict[str, int] = field(default_factory=dict)
    weight: int = 1
    depth: int = 0

    def awaits_key(self) -> bool:
        return isinstance(self.value, dict) and self.key is None


@dataclass(slots=True)
class _Builder:
    """One document in the making.

    Attributes:
        count: Values so far, those behind aliases and of earlier documents included.
        anchors: Finished values by anchor, with their weight and depth. A value is known by its
            anchor only once it is finished, so it cannot hold itself.
    """

    max_values: int
    count: int = 0
    frames: list[_Frame] = field(default_factory=list)
    anchors: dict[str, tuple[Value, int, int]] = field(default_factory=dict)
    lines: dict[int, int] = field(default_factory=dict)
    root: Value = None

    def scalar(self, event: yaml.ScalarEvent) -> None:
        line = _line(event)
        frame = self.frames[-1] if self.frames else None
        if frame is not None and frame.awaits_key():
            self._check_tag(event.tag, _STRING_TAGS, line)
            value: Value = str(event.value)
            self._key(frame, event.value, line)
        else:
            value = self._resolved(event, line)
            self._count(1, line)
            self._add(value, 1, 0)
        if event.anchor is not None:
            self.anchors[event.anchor] = (value, 1, 0)

    def open(self, value: list[Value] | dict[str, Value], event: yaml.CollectionStartEvent) -> None:
        line = _line(event)
        self._check_place(1, line)
        self._check_tag(event.tag, _CONTAINER_TAGS, line)
        self._count(1, line)
        self.lines[id(value)] = line
        self.frames.append(_Frame(value, event.anchor))

    def close(self) -> None:
        frame = self.frames.pop()
        if frame.anchor is not None:
            self.anchors[frame.anchor] = (frame.value, frame.weight, frame.depth + 1)
        self._add(frame.value, frame.weight, frame.depth + 1)

    def alias(self, event: yaml.AliasEvent) -> None:
        line = _line(event)
        if event.anchor not in self.anchors:
            self._refuse(f"the alias '*{event.anchor}' comes before the end of its anchor", line)
        value, weight, depth = self.anchors[event.anchor]
        self._check_place(depth, line)
        self._count(weight, line)
        self._add(value, weight, depth)

    def finish(self) -> Document:
        return Document(self.root, self.lines)

    def _resolved(self, event: yaml.ScalarEvent, line: int) -> Value:
        if event.tag is not None or not event.implicit[0]:
            self._check_tag(event.tag, _STRING_TAGS, line)
            return str(event.value)
        try:
            return resolve(event.value)
        except ValueError as error:
            self._refuse(str(error), line)

    def _key(self, frame: _Frame, key: str, line: int) -> None:
        before = frame.key_lines.setdefault(key, line)
        if key in frame.value:
            self._refuse(f"the key {shown(key)} comes twice, first in line {before}", line)
        frame.key = key

    def _add(self, value: Value, weight: int, depth: int) -> None:
        if not self.frames:
            self.root = value
            return
        frame = self.frames[-1]
        frame.weight += weight
        frame.depth = max(frame.depth, depth)
        if isinstance(frame.value, list):
            frame.value.append(value)
        else:
            frame.value[frame.key or ""] = value
            frame.key = None

    def _count(self, weight: int, line: int) -> None:
        self.count += weight
        if self.count > self.max_values:
            refuse_count(self.max_values, self._path(), line)

    def _check_place(self, depth: int, line: int) -> None:
        if self.frames and self.frames[-1].awaits_key():
            self._refuse("a key is plain text, not a list, a mapping or an alias", line)
        if len(self.frames) + depth > MAX_DEPTH:
            self._refuse(f"more than {MAX_DEPTH} lists and mappings inside one another", line)

    def _check_tag(self, tag: str | None, allowed: Collection[str], line: int) -> None:
        if tag is not None and tag not in allowed:
            self._refuse(f"the tag {shown(tag)} is not allowed", line)

    def _refuse(self, message: str, line: int) -> NoReturn:
        raise InventoryError(Problem(self._path(), f"line {line}: {message}"))

    def _path(self) -> str:
        path = ""
        for frame in self.frames:
            if isinstance(frame.value, list):
                path += f"[{len(frame.value)}]"
            elif frame.key is not None:
                path += f".{frame.key}" if path else frame.key
        return path[:_PATH_LENGTH_MAX]
