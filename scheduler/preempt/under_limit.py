"""Who leaves so that a gang is within the limits of its queue and of those above it.

Where a gang goes is decided after that, with what these leave counted as free.
"""

from collections.abc import Iterable, Mapping, Sequence

from scheduler.model.ids import JobId
from scheduler.model.job import JobSpec
from scheduler.order.shares import Shares
from scheduler.preempt.victims import Permission, Unit, spare_by_role


def relieve(
    units: Iterable[Unit], permission: Permission, later: Shares, claimant: JobSpec
) -> list[Unit] | None:
    """The units that cost least by GPU, as many as are needed, then without those that are not.

    Args:
        permission: Of the claimant, with accounts kept (`keeps_accounts`); what is returned is
            taken in it.
        later: The accounts that it edits; the claimant is in them.

    Returns:
        None when not even all together suffice; nothing is taken then.
    """
    taken: list[Unit] = []
    candidates = list(_under(units, later, claimant))
    spare = spare_by_role(candidates)
    for unit in sorted(candidates, key=_cost_by_gpu):
        if later.beyond_limit(claimant.queue) is None:
            break
        if _is_spare(unit, taken, spare) and permission.may(unit, unit.pods):
            _take(taken, unit, permission)
    if later.beyond_limit(claimant.queue) is not None:
        for unit in taken:
            permission.give_back(unit, unit.pods)
        return None
    for unit in sorted(taken, key=lambda u: (-u.cost, u.key)):
        permission.give_back(unit, unit.pods)
        if later.beyond_limit(claimant.queue) is None:
            taken.remove(unit)
        else:
            permission.take(unit, unit.pods)
    return taken


def _under(units: Iterable[Unit], later: Shares, claimant: JobSpec) -> Iterable[Unit]:
    """Units whose queue is below one that has a limit and is the claimant's or above it."""
    chains = later.accounts.chains
    limiting = set(later.limiting(claimant.queue))
    for unit in units:
        above = chains.get(unit.job.spec.queue, (unit.job.spec.queue,))
        if unit.pods and not limiting.isdisjoint(above):
            yield unit


def _is_spare(unit: Unit, taken: Iterable[Unit], spare: Mapping[tuple[JobId, str], int]) -> bool:
    """Whether the gang keeps its minimum without this one too, or leaves as a whole."""
    if unit.role is None:
        return True
    alike = sum(o.job.uid == unit.job.uid and o.role == unit.role for o in taken)
    return alike < spare.get((unit.job.uid, unit.role), 0)


def _cost_by_gpu(unit: Unit) -> tuple[float, tuple[int, str, str, int]]:
    return unit.cost / max(1, unit.gpus), unit.key


def _take(taken: list[Unit], unit: Unit, permission: Permission) -> None:
    """Take a unit; a whole gang in place of those of its members that are taken already."""
    mine = [other for other in taken if other.job.uid == unit.job.uid]
    if any(other.is_whole for other in mine):
        return
    if unit.is_whole:
        for other in mine:
            permission.give_back(other, other.pods)
            taken.remove(other)
    permission.take(unit, unit.pods)
    taken.append(unit)


def without(units: Sequence[Unit], taken: Iterable[Unit]) -> list[Unit]:
    """Units of other jobs than those taken."""
    gone = {unit.job.uid for unit in taken}
    return [unit for unit in units if unit.job.uid not in gone]
