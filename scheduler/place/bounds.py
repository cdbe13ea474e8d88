"""Rules as numbers: which level holds the whole gang, how many pods each keeps together."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from scheduler.cost.fabric import counting_levels
from scheduler.model.job import JOB_GROUP, SCALE_UP, JobSpec, Mode, Role, Rule
from scheduler.model.node import NodeType
from scheduler.parallel.units import PART_GROUP, Units, segment_group
from scheduler.topology.tree import Topology

DEFAULT_TP_RULE = Rule("tp", SCALE_UP, Mode.REQUIRED)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a placement must keep, all by counts.

    Attributes:
        whole: Index of the level inside one domain of which the whole gang lies; None = anywhere.
        units: (level index, pods of a unit, kinds of groups), outermost level first; at that level
            each
            unit lies in one domain. Units divide those further out and are smaller than the gang.
        sizes: (level index, pods of a unit) of these.
    """

    whole: int | None = None
    units: tuple[tuple[int, int, frozenset[str]], ...] = ()
    sizes: tuple[tuple[int, int], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Read again and again while the same bounds are looked up for gang after gang.
        object.__setattr__(self, "sizes", tuple((level, unit) for level, unit, _ in self.units))

    def chain(self) -> tuple[frozenset[str], ...]:
        return tuple(groups for _, _, groups in self.units)


Wants = Mapping[int, frozenset[str]]
"""Level index -> kinds of groups that are to lie in one domain of it."""


def bounds_of(wants: Wants, units: Units) -> Bounds:
    """Close rules upwards: at each level, groups ruled there or further in are one unit."""
    return _bounds_of(frozenset(wants.items()), units)


@lru_cache(maxsize=8192)
def _bounds_of(rows: frozenset[tuple[int, frozenset[str]]], units: Units) -> Bounds:
    """Counts of what is free do not come in, so gangs alike share what was found."""
    wants = dict(rows)
    whole: int | None = None
    found: list[tuple[int, int, frozenset[str]]] = []
    closed: frozenset[str] = frozenset()
    for level in sorted(wants, reverse=True):
        closed = closed | wants[level]
        unit = units.unit(closed)
        if unit == 1 and JOB_GROUP not in closed:
            continue  # one pod lies in one domain wherever its node is
        if unit >= units.pods:
            whole = level
            break
        if unit > 1 and not (found and found[-1][1] == unit):
            found.append((level, unit, closed))
    return Bounds(whole, tuple(reversed(found)))


@lru_cache(maxsize=8192)
def unit_of(group: str, units: Units) -> int:
    """Pods of a unit of one kind of group."""
    return units.unit(frozenset({group}))


def add_want(wants: Wants, level: int, groups: Iterable[str]) -> Wants:
    """The wants and further groups at one level."""
    return {**wants, level: wants.get(level, frozenset()) | frozenset(groups)}


def level_of(name: str, topology: Topology, node_type: NodeType | None) -> int | None:
    """Index of a rule's level; None when the map has no such level any more."""
    if name == SCALE_UP:
        name = topology.scale_up if node_type is None else topology.scale_up_level(node_type)
    return topology.level_index.get(name)


def job_level(spec: JobSpec, topology: Topology) -> int | None | Rule:
    """Innermost level that must hold the whole job, None when none must; or a rule off the map."""
    innermost: int | None = None
    for rule in spec.rules:
        if rule.group == JOB_GROUP and rule.mode is Mode.REQUIRED:
            level = level_of(rule.within, topology, None)
            if level is None:
                return rule
            innermost = level if innermost is None else max(innermost, level)
    return innermost


def named_levels(
    topology: Topology, node_type: NodeType | None, rules: Iterable[Rule]
) -> tuple[int, ...]:
    """Levels at which nodes must have a place: what lies nowhere does not lie in one domain."""
    found = {level_of(rule.within, topology, node_type) for rule in rules}
    return tuple(sorted(level for level in found if level is not None and topology.blanks[level]))


def rules_of_parallel(spec: JobSpec) -> tuple[Rule, ...]:
    """Explicit rules and the one default: tp inside the scale-up domain, unless tp has its own."""
    rules = spec.rules
    if spec.segment is not None:
        rules = (Rule(segment_group(spec.segment), SCALE_UP), *rules)
    if any(rule.group == "tp" for rule in spec.rules):
        return rules
    return (DEFAULT_TP_RULE, *rules)


def rules_of_role(spec: JobSpec, role: Role, *, alone: bool) -> tuple[Rule, ...]:
    """Rules that bind one role; with `alone`, those of the job are the role's own."""
    own = tuple(
        rule
        for rule in (*spec.rules, *role.rules)
        if rule.group == role.name or (alone and rule.group == JOB_GROUP)
    )
    parts = role.parts.rules if role.parts is not None else ()
    return own + tuple(Rule(PART_GROUP, rule.within, rule.mode) for rule in parts)


def cost_levels(topology: Topology, node_type: NodeType | None) -> tuple[int, ...]:
    """Levels whose crossing costs time, innermost first; all of them where nothing is known.

    They are the scale-up level and those that the cost model counts.
    """
    scale_up = level_of(SCALE_UP, topology, node_type)
    if scale_up is None:
        return tuple(reversed(range(len(topology.levels))))
    return (scale_up, *counting_levels(topology, scale_up))
