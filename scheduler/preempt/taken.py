"""Candidates that are out for the moment, and what costs what."""

from collections.abc import Iterable

from scheduler.cluster.nodes import Held
from scheduler.cluster.world import World
from scheduler.model.ids import JobId, PodId
from scheduler.model.plan import PodRecord
from scheduler.preempt.victims import Permission, Unit, spare_by_role


class Taken:
    """The set of units that are out at the moment, and the counts and quotas to go with it.

    It edits the table itself, not through the trial: thousands of edits that are all taken back by
    `clear` need no log.
    """

    def __init__(self, world: World, permission: Permission, units: Iterable[Unit]) -> None:
        self._table = world.table
        self._permission = permission
        self._spare = spare_by_role(units)
        self._world = world
        self._held: dict[PodId, Held | None] = {}
        self._claimed = {unit: _claimed(world, unit) for unit in units if unit.claims}
        self._units: dict[Unit, None] = {}
        self._out: dict[PodId, int] = {}
        self._members: dict[tuple[JobId, str], int] = {}

    def __len__(self) -> int:
        return len(self._units)

    @property
    def units(self) -> list[Unit]:
        """In the order in which they were taken."""
        return list(self._units)

    def add(self, unit: Unit, *, free: bool = False) -> bool:
        """Take a unit out if that is allowed (`free`: whether it is or not)."""
        out = self._out
        pods = [p for p in unit.pods if not out.get(p.uid)]
        if not free and not self._allowed(unit, pods):
            return False
        for pod in unit.pods:
            out[pod.uid] = out.get(pod.uid, 0) + 1
        for pod in pods:
            held = self._held_by(pod)
            if held is not None:
                self._table.release(held)
        for claimed in self._claimed.get(unit, ()):
            self._table.unclaim(claimed)
        self._permission.take(unit, pods)
        self._count(unit, 1)
        self._units[unit] = None
        return True

    def drop(self, unit: Unit) -> None:
        """Put a unit back."""
        del self._units[unit]
        self._count(unit, -1)
        for claimed in self._claimed.get(unit, ()):
            self._table.claim(claimed)
        back: list[PodRecord] = []
        for pod in unit.pods:
            self._out[pod.uid] -= 1
            if not self._out[pod.uid]:
                back.append(pod)
                held = self._held_by(pod)
                if held is not None:
                    self._table.hold(held)
        self._permission.give_back(unit, back)

    def clear(self) -> None:
        for unit in reversed(self.units):
            self.drop(unit)

    def _held_by(self, pod: PodRecord) -> Held | None:
        """What a pod holds; None when its node is not on the map."""
        if pod.uid not in self._held:
            is_there = pod.node in self._world.topology.node_index
            self._held[pod.uid] = self._world.held_by(pod) if is_there else None
        return self._held[pod.uid]

    def _count(self, unit: Unit, sign: int) -> None:
        if unit.role is not None:
            key = (unit.job.uid, unit.role)
            self._members[key] = self._members.get(key, 0) + sign

    def _allowed(self, unit: Unit, pods: list[PodRecord]) -> bool:
        if unit.role is not None:
            key = (unit.job.uid, unit.role)
            if self._members.get(key, 0) >= self._spare[key]:
                return False
        return not unit.pods or self._permission.may(unit, pods)


def _claimed(world: World, unit: Unit) -> list[Held]:
    on_map = (c for c in unit.claims if c.node in world.topology.node_index)
    return [world.claimed_by(c) for c in on_map]


def cost_of(units: Iterable[Unit]) -> float:
    """What a set costs: members of a gang that leaves as a whole are counted once."""
    listed = list(units)
    whole = {unit.job.uid for unit in listed if unit.is_whole}
    return sum(u.cost for u in listed if u.is_whole or u.job.uid not in whole)
