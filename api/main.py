"""The composition root: builds the app from its parts, and owns start and stop."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute

from api.admission.admit import Door
from api.admission.hooks import HookRules
from api.clock import Clock
from api.hooks.configured import allowed_by
from api.http import (
    batch,
    cluster,
    control,
    events,
    explaining,
    gangs,
    health,
    heartbeat,
    hooks,
    inventory,
    jobs,
    nodes,
    pods,
    policy,
    queues,
    reservations,
    usage,
    watch,
    whatif,
)
from api.http.docs_page import add_docs_page
from api.http.errors import add_error_handlers
from api.http.feed import Feed
from api.http.guard import Guard
from api.http.observe import Observe
from api.http.openapi import describe
from api.http.reader import Reader
from api.http.service import Service
from api.http.waiters import JobWaiters
from api.loop.runner import Runner
from api.metrics import Metrics
from api.settings import Settings
from api.store.engine import Database
from api.store.leases import Leases

ROUTERS: tuple[APIRouter, ...] = (
    jobs.router,
    control.router,
    batch.router,
    gangs.router,
    explaining.router,
    whatif.router,
    pods.router,
    nodes.router,
    heartbeat.router,
    cluster.router,
    inventory.router,
    queues.router,
    usage.router,
    reservations.router,
    hooks.router,
    events.router,
    watch.router,
    policy.router,
    health.router,
)


def create_app(
    settings: Settings,
    database: Database,
    clock: Clock,
    runner: Runner | None,
    metrics: Metrics | None = None,
) -> FastAPI:
    """The service as an ASGI app.

    Args:
        runner: Started and stopped with the app; None where another process decides.
        metrics: Those that the runner counts in; its own by default.
    """
    metrics = metrics or Metrics()
    service = Service(
        settings=settings,
        database=database,
        clock=clock,
        runner=runner,
        metrics=metrics,
        door=Door(database, HookRules(allowed_by(settings), settings.hook_grace_s_max)),
        reader=Reader(database),
        waiters=JobWaiters(database),
        feed=Feed(database),
        leases=Leases(database),
    )
    app = FastAPI(
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=_name_of,
        lifespan=_lifespan,
    )
    app.state.service = service
    for router in ROUTERS:
        app.include_router(router)
    add_docs_page(app)
    add_error_handlers(app)
    app.openapi = describe(app, ROUTERS)  # type: ignore[method-assign]  # FastAPI's documented way
    app.add_middleware(
        Guard,
        is_loopback=settings.is_loopback,
        inventory_bytes_max=settings.body_bytes_max,
    )
    app.add_middleware(Observe, metrics=metrics)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: Service = app.state.service
    if service.runner is not None:
        await run_in_threadpool(service.runner.start)
    try:
        yield
    finally:
        await service.feed.stop()
        await run_in_threadpool(service.waiters.close)
        if service.runner is not None:
            await run_in_threadpool(service.runner.stop)
        await run_in_threadpool(service.leases.flush)


def _name_of(route: APIRoute) -> str:
    """`submit_job` reads better than FastAPI's `submit_job_v1_jobs_post`."""
    return route.name
