"""Why a job waits and what would help; what would happen if."""

from api.auth import Caller, visible
from api.http import examples, shapes
from api.http.answers import Json, answers
from api.http.caller import Called
from api.http.routing import NamePath, make_router
from api.http.service import Served, Service
from api.http.verdicts import NOT_PLACED, answered, ended, fits_now, placed, stored
from api.schemas.verdict import Verdict
from api.store.errors import NotFound
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


@router.get(
    "/v1/namespaces/{namespace}/jobs/{name}/explain",
    summary="Why a job waits",
    responses=answers(Verdict, examples.VERDICT, 404, says="What the scheduler says now."),
)
def explain_job(service: Served, caller: Called, namespace: NamePath, name: NamePath) -> Json:
    """The rule that binds, the nearest domain and what it lacks, who holds it and what would help.

    Of a job in its place: where that is, and which rules do not hold there. Every change that is
    proposed was tried on a copy of the cluster: with it the job would start now, were it next.
    """
    job = get_job(service.database, namespace, name)
    if not visible(caller, job):
        raise NotFound("job", f"{namespace}/{name}")
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


def may_see(caller: Caller) -> Visible:
    """Which jobs of the world a caller is told of by name."""
    return lambda job: visible(caller, job.spec)
