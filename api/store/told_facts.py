"""Facts as worlds are told of them: as they are written, and as jobs end that need none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scheduler.cluster.world import World
from scheduler.model.ids import JobId, PodId
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import Fact, FactKind

Columns = Mapping[str, object]


def fact_of(row: Mapping[Any, Any]) -> Fact:
    """A row of `facts`; columns that it leaves out are as in a new one."""
    pod, state = row.get("pod_uid"), row.get("pod_state")
    return Fact(
        id=row["id"],
        revision=row["id"],
        kind=FactKind(row["kind"]),
        job=JobId(row["job_uid"]),
        pod=None if pod is None else PodId(pod),
        attempt=row.get("attempt", 0),
        pod_state=None if state is None else PodState(state),
        exit_code=row.get("exit_code"),
        request_id=row.get("request_id") or "",
    )


def has_settled(world: World, revision: int) -> bool:
    """Whether the cycle at that revision has had every fact that it knew taken account of.

    If it has not, the facts have to be read: one that changed nothing leaves without an event.
    """
    return all(fact.id > revision for fact in world.facts)


def tell_facts(rows: Sequence[Columns], world: World) -> bool:
    """Facts that were written, each with an event."""
    world.facts = [*world.facts, *map(fact_of, rows)]
    return True


@dataclass(slots=True)
class ToldEnds:
    """What ending some jobs changed.

    Attributes:
        cancelled: Rows of jobs that ended at once.
        deleted: Uids of ended jobs whose records are gone.
        facts: That the others are to end.
    """

    cancelled: Sequence[Columns]
    deleted: Sequence[str]
    facts: Sequence[Columns]

    def __call__(self, world: World) -> bool:
        """Tell a world; False if it does not know that a job had ended that was deleted."""
        if any(uid in world.jobs for uid in self.deleted):
            return False
        for row in self.cancelled:
            end_job(world, row)
        return tell_facts(self.facts, world)


def end_job(world: World, row: Columns) -> None:
    """Tell a world that a job has ended, if it knows it."""
    known = world.jobs.get(JobId(str(row["uid"])))
    if known is not None:
        world.put_job(replace(known, state=JobState(str(row["state"]))))
