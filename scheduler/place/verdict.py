"""Why equal pods do not fit: the rule that binds, the nearest domain and what it lacks."""

from collections.abc import Mapping

from scheduler.model.job import JOB_GROUP, Mode, Rule
from scheduler.model.lifecycle import Reason
from scheduler.model.placement import Nearest, NoFit
from scheduler.parallel.units import PART_GROUP, SEGMENT
from scheduler.place.bounds import Bounds, Wants, bounds_of, level_of
from scheduler.place.room import Room
from scheduler.place.uniform import Ask, required_wants

SET_ASIDE_WORDS = {
    "gpus_in_use": "without enough free GPUs",
    "cpu_memory_or_other_in_use": "without enough free CPUs, memory or other resources",
    "not_listed": "not among the nodes asked for",
    "other_node_type": "of another type",
    "too_few_gpus": "with too few GPUs",
    "labels": "without the labels",
    "exclusive": "of jobs that share with no other",
    "used_by_others": "in use by others",
    "rack_power": "in racks without the power for one more",
    "dead_rails": "without enough GPUs whose rail works",
    "lemon": "that fail far more often than others",
    "spare_pool": "kept for gangs in recovery",
    "no_place_at_the_level": "without a place at the level of a rule",
}

NEVER = "never fits, even with every node empty: "
ASIDE = " (nodes set aside: "


def gist(message: str) -> str:
    """A message without the counts of nodes set aside, which change with every job that ends."""
    return message.partition(ASIDE)[0]


def never(message: str) -> bool:
    """Whether a message says that waiting does not help."""
    return message.startswith(NEVER)


def missing_level(rule: Rule, topology_levels: tuple[str, ...]) -> NoFit:
    """A rule at a level that the map no longer has."""
    return NoFit(
        never=False,
        code=Reason.RULE,
        rule=rule,
        message=(
            f"the map has no level '{rule.within}'; its levels are {', '.join(topology_levels)}"
        ),
    )


def shortfall(ask: Ask, wants: Wants) -> NoFit:
    """The verdict on equal pods of which fewer than `ask.least` fit."""
    view = ask.view
    bounds = bounds_of(wants, ask.units)
    room = Room(view, bounds, ask.scope)
    most = room.most()
    fitting = min(most - most % ask.step, ask.least)
    rule = _binding_rule(ask) if _free_of_rules(ask) >= ask.least else None
    nearest = _nearest(ask, bounds, room, cut_by_rule=rule is not None)
    aside = view.set_aside()
    return NoFit(
        never=False,
        code=Reason.ROOM if rule is None else Reason.RULE,
        rule=rule,
        message=_message(ask, rule, nearest, fitting, aside),
        nearest=nearest,
        fitting=fitting,
        wanted=ask.least,
        set_aside=aside,
    )


def _free_of_rules(ask: Ask) -> int:
    """Pods that would fit without any rule; nodes without a place count one each."""
    nowhere = ask.view.never_here["no_place_at_the_level"]
    return Room(ask.view, Bounds(), ask.scope).total() + nowhere


def _binding_rule(ask: Ask) -> Rule | None:
    """The first required rule without which the pods would fit; else the first required one."""
    required = [r for r in ask.rules if r.mode is Mode.REQUIRED]
    for rule in required:
        others = tuple(r for r in ask.rules if r is not rule)
        wants = required_wants(
            Ask(ask.view, ask.units, others, ask.node_type, ask.least, ask.step, ask.scope)
        )
        if (
            not isinstance(wants, Rule)
            and Room(ask.view, bounds_of(wants, ask.units), ask.scope).most() >= ask.least
        ):
            return rule
    return required[0] if required else None


def _nearest(ask: Ask, bounds: Bounds, room: Room, *, cut_by_rule: bool) -> Nearest:
    """The domain that lacks least: for the whole gang, or for one more of its outermost units."""
    view = ask.view
    last = len(view.topology.levels) - 1
    if bounds.whole == last and view.shape.single:
        # No node is near: it never holds two pods of one such gang.
        return Nearest(level="", domain="", lacks_nodes=0, lacks_gpus=0)
    if bounds.whole is not None and (ask.scope is None or bounds.whole > ask.scope[0]):
        level = bounds.whole
        best = max(
            (d for d in _domains(ask, level)),
            key=lambda d: (room.pods(level, d), view.counts[level][d], -d),
            default=None,
        )
        if best is not None:
            return _lacking(ask, level, best, ask.least - room.pods(level, best))
    if bounds.units and cut_by_rule:
        level, unit, _ = bounds.units[0]
        domains = _domains(ask, level)
        best = min(domains, key=lambda d: (unit - view.counts[level][d] % unit, d), default=None)
        if best is not None:
            return _lacking(ask, level, best, unit - view.counts[level][best] % unit)
    return _lacking(ask, None, None, ask.least - _free_of_rules(ask))


def _domains(ask: Ask, level: int) -> list[int]:
    topology = ask.view.topology
    lo, hi = (
        (0, len(topology.levels[level].names))
        if ask.scope is None
        else topology.inside(*ask.scope, level)
    )
    return [d for d in range(lo, hi) if not topology.levels[level].is_blank(d)]


def _lacking(ask: Ask, level: int | None, domain: int | None, pods: int) -> Nearest:
    topology, shape = ask.view.topology, ask.view.shape
    pods = max(1, pods)
    per_node = 1
    if not shape.single and shape.gpus:
        largest = max(
            (t.gpus for t, ok in zip(topology.types, ask.view.eligible, strict=True) if ok),
            default=0,
        )
        per_node = max(1, largest // shape.gpus)
    name = "" if level is None or domain is None else topology.levels[level].names[domain]
    return Nearest(
        level="" if level is None else topology.levels[level].name,
        domain=name,
        lacks_nodes=-(-pods // per_node),
        lacks_gpus=pods * shape.gpus,
    )


def _largest_node(ask: Ask) -> int:
    view = ask.view
    return max(
        (t.gpus for t, ok in zip(view.topology.types, view.eligible, strict=True) if ok), default=0
    )


def rule_words(rule: Rule) -> str:
    """A rule as a reader would say it."""
    group = {JOB_GROUP: "the job", PART_GROUP: "each part"}.get(rule.group, rule.group)
    if group.startswith(SEGMENT):
        group = f"each segment of {group.removeprefix(SEGMENT)} nodes"
    return f"{group} within {rule.within}, {rule.mode}"


def _message(
    ask: Ask, rule: Rule | None, nearest: Nearest, fitting: int, aside: Mapping[str, int]
) -> str:
    shape = ask.view.shape
    what = f"{shape.gpus} GPUs each" if shape.gpus else "no GPU"
    text = f"needs {ask.least} pods of {what}"
    if rule is not None:
        level = level_of(rule.within, ask.view.topology, ask.node_type)
        where = ask.view.topology.levels[level].name if level is not None else rule.within
        text += f" under the rule '{rule_words(rule)}'" + (
            "" if where == rule.within else f" ({where})"
        )
    text += f"; {fitting} of {ask.least} fit now"
    if not nearest.lacks_nodes:
        text += f"; a node holds one pod of it, at most {_largest_node(ask)} GPUs"
    elif nearest.domain:
        text += f"; the nearest {nearest.level}, '{nearest.domain}', lacks {_amount(nearest)}"
    else:
        text += f"; the cluster lacks {_amount(nearest)}"
    if aside:
        text += (
            ASIDE
            + ", ".join(f"{n} {SET_ASIDE_WORDS.get(why, why)}" for why, n in aside.items())
            + ")"
        )
    return text


def _amount(nearest: Nearest) -> str:
    nodes = "1 node" if nearest.lacks_nodes == 1 else f"{nearest.lacks_nodes} nodes"
    return f"{nodes} ({nearest.lacks_gpus} GPUs)" if nearest.lacks_gpus else nodes
