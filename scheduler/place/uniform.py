"""Gangs of equal pods: which of them fit, and which stated rules can hold, by counts alone."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from scheduler.cluster.view import View
from scheduler.model.job import JOB_GROUP, Mode, Rule
from scheduler.model.node import NodeType
from scheduler.parallel.units import Units
from scheduler.place.bounds import Bounds, Wants, add_want, bounds_of, level_of, unit_of
from scheduler.place.price import Price
from scheduler.place.room import Room, Scope


@dataclass(frozen=True, slots=True)
class Ask:
    """Equal pods that are to be placed together.

    Attributes:
        view: Counts of the pods' shape.
        units: The pods wanted and their groups.
        rules: Required and preferred, with groups as `units` names them.
        least: Pods that must be placed; at most `units.pods`.
        step: Pods come in multiples of this (the size of a part).
        scope: Only inside this domain; None = anywhere.
        price: What a layout costs in predicted seconds; None where pods state no traffic.
    """

    view: View
    units: Units
    rules: tuple[Rule, ...]
    node_type: NodeType | None
    least: int
    step: int = 1
    scope: Scope | None = None
    price: Price | None = None

    def seconds(self, nodes: Sequence[int], masks: Sequence[int]) -> float:
        """Predicted between nodes, with rails as they are now; 0.0 where pods state no traffic."""
        if self.price is None:
            return 0.0
        return self.price.seconds(nodes, masks, self.view.table.dead_rails)

    def least_s(self) -> float:
        """No layout on what is free now takes less; 0.0 where pods state no traffic."""
        if self.price is None:
            return 0.0
        return self.price.least_s([self.view.buckets(d).hold for d in self.price.levels])


@dataclass(frozen=True, slots=True)
class Settled:
    """Which pods get a place and which stated rules will hold.

    Attributes:
        must: Required rules by level.
        stated: Those, and every preferred rule that can be kept beside those before it.
        wants: Those, and for each preferred rule that cannot, the nearest level above at which its
            groups can lie in one domain.
        broken: Preferred rules that can not, with the index of their level; None = off the map.
    """

    pods: int
    must: Wants
    stated: Wants
    wants: Wants
    broken: tuple[tuple[Rule, int | None], ...] = field(default=())


def required_wants(ask: Ask) -> Wants | Rule:
    """Required rules by level; or a rule whose level the map does not have."""
    wants: Wants = {}
    for rule in ask.rules:
        if rule.mode is not Mode.REQUIRED:
            continue
        level = level_of(rule.within, ask.view.topology, ask.node_type)
        if level is None:
            return rule
        wants = add_want(wants, level, {rule.group})
    return wants


def settle(ask: Ask, wants: Wants) -> Settled | None:
    """How many pods fit under the required rules, and which preferences hold beside them."""
    most = Room(ask.view, bounds_of(wants, ask.units), ask.scope).most()
    pods = min(ask.units.pods, most - most % ask.step)
    if pods < ask.least or pods == 0:
        return None
    must = stated = wants
    broken: list[tuple[Rule, int | None]] = []
    for rule in ask.rules:
        if rule.mode is not Mode.PREFERRED:
            continue
        level = level_of(rule.within, ask.view.topology, ask.node_type)
        for depth in range(-1 if level is None else level, -1, -1):
            hardened = harden(ask, wants, depth, rule.group, pods)
            if hardened is not None:
                wants = hardened
                break
        if level is None or rule.group not in wants.get(level, ()):
            broken.append((rule, level))
        else:
            stated = add_want(stated, level, {rule.group})
    return Settled(pods, must, stated, wants, tuple(broken))


def bounds_for(ask: Ask, wants: Wants, pods: int) -> Bounds:
    """Bounds for so many of the pods: a unit that holds all that start is the whole gang."""
    bounds = bounds_of(wants, ask.units)
    if pods == ask.units.pods or not bounds.units:
        return bounds
    inner = tuple(u for u in bounds.units if u[1] < pods)
    whole = max((u[0] for u in bounds.units if u[1] >= pods), default=bounds.whole)
    return Bounds(whole, inner)


def harden(ask: Ask, wants: Wants, level: int, group: str, pods: int) -> Wants | None:
    """The wants and one group more, kept in one domain of a level; None if that cannot be."""
    buckets = ask.view.buckets
    alone = pods if group == JOB_GROUP else unit_of(group, ask.units)
    if min(alone, pods) > buckets(level).largest:
        return None
    harder = add_want(wants, level, {group})
    bounds = bounds_for(ask, harder, pods)
    for at, unit, _ in bounds.units:
        if unit > buckets(at).largest:
            return None
    if bounds.whole is not None and pods > buckets(bounds.whole).largest:
        return None
    return harder if Room(ask.view, bounds, ask.scope).fits(pods) else None
