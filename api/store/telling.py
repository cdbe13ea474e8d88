"""What worlds of this process are told of its own writes, so that they need not read them back.

A world told in this way is equal to one that read the rows: the same columns become the same
records.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from api.store.engine import Database
from api.store.job_rows import whole_row
from api.store.snapshot import JOB_FIELDS, POD_FIELDS, job_record, pod_record
from api.store.told_facts import end_job
from scheduler.cluster.world import World
from scheduler.model.ids import JobId, PodId
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import FINAL, PodState
from scheduler.model.plan import PodRecord

Columns = Mapping[str, object]


def follow_told(db: Database, world: World) -> bool:
    """Have a world follow what this process wrote; False if it has to read, or there is nothing.

    Facts that were taken account of without an event stay; see `told_facts.has_settled`.
    """
    found = db.tail.told_since(world.revision)
    if found is None:
        return False
    tellings, revision = found
    for telling in tellings:
        if not telling(world):
            return False
    world.revision = revision
    return True


def tell_new_jobs(rows: Sequence[Columns], specs: Sequence[JobSpec], world: World) -> bool:
    """Jobs that were submitted."""
    for row, spec in zip(rows, specs, strict=True):
        whole = whole_row(row)
        world.put_job(job_record([whole[name] for name in JOB_FIELDS], spec))
    return True


@dataclass(frozen=True, slots=True)
class ToldCommit:
    """What a commit changed, where it was about jobs and pods alone.

    Attributes:
        jobs: Rows as they are now, in order of age.
        pods: New ones, or those that start anew; as written.
        pod_moves: Uid of the job, uid, state and exit code of others.
        facts: Ids of those that were taken account of.
    """

    jobs: list[Columns] = field(default_factory=list)
    pods: list[Columns] = field(default_factory=list)
    pod_moves: list[tuple[str, str, str, int | None]] = field(default_factory=list)
    facts: list[int] = field(default_factory=list)

    def __call__(self, world: World) -> bool:
        """Tell a world; False, and nothing told, if it does not know what this is about."""
        moved = self._moved(world)
        if moved is None or any(str(row["uid"]) not in world.jobs for row in self.jobs):
            return False
        for row in sorted(self.jobs, key=_age):
            if row["state"] in FINAL:
                end_job(world, row)
            else:
                spec = world.jobs[JobId(str(row["uid"]))].spec
                world.put_job(job_record([row[name] for name in JOB_FIELDS], spec))
        arrived = [pod_record([row[name] for name in POD_FIELDS]) for row in self.pods]
        world.put_pods([*moved, *arrived])
        done = frozenset(self.facts)
        world.facts = [fact for fact in world.facts if fact.id not in done]
        return True

    def _moved(self, world: World) -> list[PodRecord] | None:
        moved = []
        for job, uid, state, exit_code in self.pod_moves:
            known = world.pods.get(JobId(job), {}).get(PodId(uid))
            if known is None:
                return None
            moved.append(replace(known, state=PodState(state), exit_code=exit_code))
        return moved


def _age(row: Columns) -> int:
    return int(str(row["age"]))
