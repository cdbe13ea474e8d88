"""Why a job waits and what would help; what would happen if."""

import threading
from typing import Annotated

from fastapi import Query

from api.auth import Caller, visible
from api.http import examples, shapes
from api.http.answers import Json, answers
from api.http.routing import REVISION_MAX, Called, NamePath, Served, make_router
from api.http.service import Service
from api.http.verdicts import (
    NOT_PLACED,
    answered,
    ended,
    fits_now,
    placed,
    stored,
    was_placed,
    was_waiting,
)
from api.loop.replay import past
from api.schemas.verdict import Verdict
from api.store.errors import FutureRevision, NotFound
from api.store.events import current_revision
from api.store.jobs import get_job
from api.store.pods import pods_of
from api.store.policy import load_policy
from api.store.topology import load_topology
from api.store.views import JobView
from scheduler.cluster.world import World
from scheduler.explain.answer import Answer, Visible
from scheduler.explain.explain import waiting
from scheduler.model.ids import JobId
from scheduler.model.lifecycle import FINAL, LIVE_POD
from scheduler.model.placement import Placement

router = make_router("jobs")

_LOOKING_BACK = threading.Lock()


@router.get(
    "/v1/namespaces/{namespace}/jobs/{name}/explain",
    summary="Why a job waits",
    responses=answers(Verdict, examples.VERDICT, 400, 404, says="What the scheduler says now."),
)
def explain_job(
    service: Served,
    caller: Called,
    namespace: NamePath,
    name: NamePath,
    at: Annotated[
        int | None,
        Query(ge=0, le=REVISION_MAX, description="As of this revision, from the decision log."),
    ] = None,
) -> Json:
    """The rule that binds, the nearest domain and what it lacks, who holds it and what would help.

    Of a job in its place: where that is, and which rules do not hold there. Every change that is
    proposed was tried on a copy of the cluster: with it the job would start now, were it next.

    With `at`, the same of the cluster as the last decision up to that revision saw it; 404 where
    the log does not reach back so far, 400 where the revision lies ahead.
    """
    job = get_job(service.database, namespace, name)
    if not visible(caller, job):
        raise NotFound("job", f"{namespace}/{name}")
    if at is not None:
        return Json(explained_then(service, caller, job, at))
    return Json(explained(service, caller, job))


def explained(service: Service, caller: Caller, job: JobView) -> shapes.Shape:
    """The answer on a job in any state."""
    if job.state in FINAL:
        return ended(job)
    if job.state not in NOT_PLACED:
        pods = [p for p in pods_of(service.database, job.uid) if p.state in LIVE_POD]
        return placed(job, pods, load_topology(service.database).topology)
    seen, now_s = may_see(caller), service.clock.now_s()
    policy = load_policy(service.database)

    def question(world: World) -> tuple[Placement | Answer | None, float | None]:
        record = world.jobs.get(JobId(job.uid))
        if record is None:
            return None, None
        return waiting(world, record, policy, now_s, seen), record.expected_start_s

    found, expected_start_s = service.reader.ask(question)
    if isinstance(found, Answer):
        return answered(found)
    if isinstance(found, Placement) and not job.message:
        message = "the job has not been looked at yet; there is room for it now"
        return fits_now(found, message) | {"fits": False, "when": "not_now"}
    if isinstance(found, Placement):
        return fits_now(found, "there is room for it now; the next cycle looks at it")
    return stored(job, expected_start_s)


def explained_then(service: Service, caller: Caller, job: JobView, revision: int) -> shapes.Shape:
    """The answer as of a revision of the past, made from the log of decisions."""
    current = current_revision(service.database)
    if revision > current:
        raise FutureRevision(revision, current)
    # A copy of a large cluster takes a second to make: one question at a time.
    with _LOOKING_BACK:
        then = past(service.database, revision)
    record = then.world.jobs.get(JobId(job.uid))
    at = f"at revision {then.decision.revision}"
    if record is None:
        return fits_now(None, f"{at} the job was not there yet, or had ended")
    if record.state not in NOT_PLACED:
        return was_placed(at, record, then.world.live_pods(record.uid), then.world.topology)
    found = waiting(then.world, record, then.decision.policy, then.decision.now_s, may_see(caller))
    if isinstance(found, Answer):
        return answered(found)
    if isinstance(found, Placement):
        message = f"{at} there was room for it; the decision that looked at it came then or later"
        return fits_now(found, message) | {"fits": False, "when": "not_now"}
    return was_waiting(at, record)


def may_see(caller: Caller) -> Visible:
    """Which jobs of the world a caller is told of by name."""
    return lambda job: visible(caller, job.spec)
