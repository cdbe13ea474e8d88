"""Whether the service lives, is ready, and its metrics."""

from fastapi import Response

from api.http import examples
from api.http.answers import Json, answers, text_answer
from api.http.cluster import overview
from api.http.largest import largest_by_level
from api.http.routing import make_router
from api.http.service import Served, Service
from api.log import get_logger
from api.metrics import CONTENT_TYPE
from api.schemas.service import Live, Ready
from api.store.events import current_revision
from api.store.queue_views import queue_summaries

router = make_router("service")
log = get_logger(__name__)

QUEUES_MEASURED = 1_000
"""Queues with metrics of their own, by name; each is a handful of time series for ever."""


@router.get(
    "/healthz",
    summary="Whether the process lives",
    responses=answers(Live, examples.LIVE, says="It does."),
)
async def read_health() -> Json:
    """Touches nothing; answers as long as requests are answered at all."""
    return Json({"status": "ok"})


@router.get(
    "/readyz",
    summary="Whether requests are served",
    responses=answers(Ready, examples.READY, says="They are.", also=examples.NOT_READY_ALSO),
)
def read_readiness(service: Served) -> Json:
    """503 while the database does not answer or the runner is not up."""
    checks = {"database": _database(service), "runner": _runner(service)}
    ready = all(found == "ok" for found in checks.values())
    return Json(
        {"status": "ready" if ready else "not_ready", "checks": checks}, 200 if ready else 503
    )


@router.get(
    "/metrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses=text_answer(CONTENT_TYPE, examples.METRICS, "All metrics."),
)
def read_metrics(service: Served) -> Response:
    """Those of this process; gauges are read from the store now."""
    _refresh(service)
    return Response(service.metrics.text(), media_type=CONTENT_TYPE)


def _database(service: Service) -> str:
    try:
        current_revision(service.database)
    except Exception:
        # An edge: whatever the driver raises means that it does not answer.
        log.exception("database_unavailable")
        return "does not answer"
    return "ok"


def _runner(service: Service) -> str:
    return "ok" if service.runner is None or service.runner.is_ready else "is not up yet"


def _refresh(service: Service) -> None:
    found = overview(service)
    gpus, jobs = found["gpus"], found["jobs"]
    if isinstance(gpus, dict) and isinstance(jobs, dict):
        service.metrics.show_gpus({k: n for k, n in gpus.items() if k != "total"})
        service.metrics.show_gangs(jobs)
    service.metrics.show_largest_gangs(largest_by_level(service))
    service.metrics.show_queues(
        (
            found.queue.name,
            {
                "used": found.used_gpus,
                "quota": found.queue.quota_gpus,
                "limit": found.queue.limit_gpus,
            },
            found.pending,
        )
        for found in queue_summaries(service.database, limit=QUEUES_MEASURED)
    )
    service.metrics.revision.set(int(str(found["revision"])))
