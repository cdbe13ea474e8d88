"""Node entries of Podyard's own format: hostlists, places, labels and taints -> node records."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from scheduler.errors import InventoryError
from scheduler.importers.fields import (
    Fields,
    label_key_problem,
    label_value_problem,
    name_problem,
)
from scheduler.importers.hostlist import NAMES_MAX, expand
from scheduler.importers.plain_values import shown
from scheduler.model.node import NodeRecord, NodeType, Taint, TaintEffect

FIELDS = ("names", "type", "labels", "taints")
"""Fields of a node entry beside one for each level."""

_TAINT_FIELDS = ("key", "value", "effect")


@dataclass(slots=True)
class NodeEntries:
    """What the node entries have said so far.

    Attributes:
        levels: All but `node`.
        types: Known node types.
        entry_of: The path of the entry that each node is in.
    """

    levels: tuple[str, ...]
    types: Mapping[str, NodeType]
    records: list[NodeRecord] = field(default_factory=list)
    entry_of: dict[str, str] = field(default_factory=dict)
    used_types: set[str] = field(default_factory=set)

    def read(self, entry: Fields) -> None:
        """Add the nodes of one entry."""
        entry.allow((*FIELDS, *self.levels))
        names = read_names(entry, "names", limit=NAMES_MAX, used=len(self.entry_of))
        refuse_bad(entry, names, name_problem)
        refuse_twice(entry, names, self.entry_of, "node")
        type_name = self._type(entry)
        places = {level: self._place(entry, level) for level in self.levels}
        labels, taints = _labels(entry), _taints(entry)
        # One mapping serves all nodes of an entry; records are never changed.
        self.records += [NodeRecord(name, type_name, places, labels, taints) for name in names]

    def _type(self, entry: Fields) -> str:
        name = entry.text("type")
        if name in self.types:
            self.used_types.add(name)
        else:
            found = f"unknown type {shown(name)}" if name else "missing"
            entry.refuse("type", f"{found}; known types are {', '.join(self.types)}")
        return name

    def _place(self, entry: Fields, level: str) -> str | None:
        if level not in entry:
            entry.refuse(
                level,
                f"missing; name the {level} of these nodes, or write `{level}: null` for none",
            )
        return entry.place(level)


def read_names(entry: Fields, key: str, *, limit: int, used: int) -> list[str]:
    """The names of the hostlists in a field; none if one of them cannot be read.

    Args:
        limit: Names allowed in all entries.
        used: Names of the entries before.
    """
    names: list[str] = []
    texts = entry.texts(key)
    if entry.values.get(key) in (None, []):
        entry.refuse(key, 'missing; names are a hostlist or a list of them, as in "n[001-004]"')
    for text in texts:
        try:
            names += expand(text, limit=limit, used=used + len(names))
        except InventoryError as error:
            entry.refuse(key, error.problems[0].message)
            return []
    return names


def refuse_bad(
    entry: Fields, names: Iterable[str], problem_of: Callable[[str], str | None]
) -> None:
    """Refuse the first bad name; others of its hostlist are bad in the same way."""
    problem = next(filter(None, map(problem_of, names)), None)
    if problem is not None:
        entry.refuse("names", problem)


def refuse_twice(entry: Fields, names: Iterable[str], entry_of: dict[str, str], noun: str) -> None:
    """Note which entry each name is in, and refuse those that an entry has had before."""
    again: dict[str, list[str]] = {}
    for name in names:
        if name in entry_of:
            again.setdefault(entry_of[name], []).append(name)
        else:
            entry_of[name] = entry.path
    for before, found in again.items():
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        where = f"are in {before} and {entry.path}" if more else f"is in {before} and {entry.path}"
        if before == entry.path:
            where = f"{'come' if more else 'comes'} twice in {entry.path}"
        entry.refuse("names", f"{noun} '{found[0]}'{more} {where}; a {noun} has one entry")


def _labels(entry: Fields) -> dict[str, str]:
    inner = entry.mapping("labels")
    labels: dict[str, str] = {}
    for key in inner.values:
        problem = label_key_problem(key)
        if problem is not None:
            entry.refuse("labels", problem)
        if inner.values[key] is None:
            inner.wrong(key, "text, in quotes")
        labels[key] = inner.checked(key, "text", label_value_problem) or ""
    return dict(sorted(labels.items()))


def _taints(entry: Fields) -> tuple[Taint, ...]:
    taints: dict[tuple[str, TaintEffect], Taint] = {}
    for inner in entry.mappings("taints"):
        inner.allow(_TAINT_FIELDS)
        if inner.values.get("key") is None:
            inner.refuse("key", "missing")
        key = inner.checked("key", "text", label_key_problem) or ""
        value = inner.checked("value", "text", label_value_problem) or ""
        effect = _effect(inner)
        if (key, effect) in taints:
            inner.refuse("key", f"the taint {shown(key)} with effect '{effect}' comes twice")
        taints[key, effect] = Taint(key, value, effect)
    return tuple(sorted(taints.values()))


def _effect(taint: Fields) -> TaintEffect:
    effect = taint.text("effect", TaintEffect.NO_SCHEDULE)
    if effect not in set(TaintEffect):
        taint.refuse("effect", f"{shown(effect)} is none of {', '.join(TaintEffect)}")
        return TaintEffect.NO_SCHEDULE
    return TaintEffect(effect)
