"""Whether the service lives, is ready, and its metrics."""

import time

from fastapi import Response

from api.http import examples
from api.http.alive import LIVE
from api.http.answers import Json, answers, text_answer
from api.http.breaker import is_open
from api.http.largest import largest_by_level
from api.http.polling import overview
from api.http.routing import Served, make_router
from api.http.service import Service
from api.http.shapes import Shape
from api.log import get_logger
from api.metrics import CONTENT_TYPE, Metrics
from api.schemas.service import Live, Ready
from api.store.errors import DatabaseSilent
from api.store.events import current_revision
from api.store.happenings import deliveries_waiting, open_faults
from api.store.policy import load_policy
from api.store.queue_views import queue_summaries
from api.store.schema import trouble_with_schema

FILLS = ("empty", "partly", "full")

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
    return Json(LIVE)


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
    """Those of this process; gauges are read from the store now.

    While the database does not answer they are those of the last time, and `podyard_database_up`
    is 0: what this process counts is told all the same.
    """
    try:
        _refresh(service)
    except Exception:
        # An edge: whatever the driver raises means that it does not answer.
        log.exception("metrics_not_refreshed")
        service.metrics.database_up.set(0)
    return Response(service.metrics.text(), media_type=CONTENT_TYPE)


def _database(service: Service) -> str:
    if service.database.is_silent:
        return "does not answer"
    try:
        current_revision(service.database)
        trouble = trouble_with_schema(service.database)
    except Exception:
        # An edge: whatever the driver raises means that it does not answer.
        log.exception("database_unavailable")
        return "does not answer"
    return trouble or "ok"


def _runner(service: Service) -> str:
    return "ok" if service.runner is None or service.runner.is_ready else "is not up yet"


def _refresh(service: Service) -> None:
    metrics = service.metrics
    began_s = time.perf_counter()
    if service.database.is_silent:
        raise DatabaseSilent
    current_revision(service.database)
    metrics.database_read.set(time.perf_counter() - began_s)
    metrics.database_up.set(1)
    _show_overview(metrics, overview(service))
    metrics.show_largest_gangs(largest_by_level(service))
    metrics.show_queues(
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
    metrics.show_by(metrics.faults, open_faults(service.database))
    metrics.deliveries_pending.set(deliveries_waiting(service.database))
    metrics.paused.set(int(load_policy(service.database).paused))
    metrics.breaker.set(int(is_open(service)))
    metrics.watchers.set(service.feed.watchers)


def _show_overview(metrics: Metrics, found: Shape) -> None:
    gpus, jobs, aside = found["gpus"], found["jobs"], found["aside"]
    nodes, waiting, levels = found["nodes"], found["waiting"], found["levels"]
    if isinstance(gpus, dict) and isinstance(jobs, dict):
        metrics.show_gpus({k: n for k, n in gpus.items() if k != "total"})
        metrics.show_by(metrics.gangs, jobs)
    if isinstance(nodes, dict) and isinstance(aside, dict):
        metrics.show_by(metrics.nodes, {"usable": nodes["usable"], **aside})
    if isinstance(waiting, list):
        metrics.show_waiting((w["reason"], w["gangs"], w["gpus"]) for w in waiting)
    if isinstance(levels, list):
        metrics.show_levels(
            (level["level"], {f: level[f] for f in FILLS}, level["fragmentation"])
            for level in levels
        )
    metrics.claimed_gpus.set(int(str(found["claimed_gpus"])))
    metrics.revision.set(int(str(found["revision"])))
