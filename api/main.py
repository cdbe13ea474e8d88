"""The composition root: builds the app from its parts, and owns start and stop."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from starlette.routing import BaseRoute

from api.admission.admit import Door
from api.admission.hooks import HookRules
from api.clock import Clock
from api.dashboard.page import add_dashboard
from api.hooks.configured import allowed_by
from api.http import (
    audit,
    batch,
    breaker,
    cluster,
    control,
    draining,
    events,
    explaining,
    faults,
    gangs,
    health,
    heartbeat,
    history,
    hooks,
    inventory,
    jobs,
    login,
    logs,
    nodes,
    pods,
    policy,
    polling,
    queues,
    reservations,
    spares,
    usage,
    watch,
    whatif,
)
from api.http.authenticate import Authenticate
from api.http.docs_page import add_docs_page
from api.http.echo import EchoHeartbeats
from api.http.errors import add_error_handlers
from api.http.express import Express
from api.http.feed import Feed
from api.http.gating import gate_by, is_asking
from api.http.glimpse import Glimpse
from api.http.guard import Guard
from api.http.observe import Observe
from api.http.openapi import describe
from api.http.patience import Patience
from api.http.reader import Reader
from api.http.recorder import Recorder
from api.http.rights import TABLE
from api.http.service import Service
from api.http.sight import Sight
from api.http.waiters import JobWaiters
from api.k8s.extender.routes import extender_router
from api.k8s.face import Face, error_response
from api.k8s.kinds import Parts
from api.k8s.registry import registry
from api.k8s.request import is_face
from api.k8s.rights import asked_of
from api.k8s.volcano.lifecycle import Lifecycle
from api.k8s.webhook.routes import webhook_router
from api.loop.runner import Runner
from api.loop.silence import Silence
from api.metrics import Metrics
from api.settings import Settings
from api.store.engine import Database
from api.store.leases import Leases

_ROUTERS = (
    jobs.router,
    control.router,
    batch.router,
    gangs.router,
    explaining.router,
    whatif.router,
    pods.router,
    logs.router,
    nodes.router,
    faults.router,
    draining.router,
    spares.router,
    breaker.router,
    heartbeat.router,
    cluster.router,
    polling.router,
    history.router,
    inventory.router,
    queues.router,
    usage.router,
    reservations.router,
    hooks.router,
    events.router,
    watch.router,
    policy.router,
    health.router,
    login.router,
    audit.router,
)
# As they are: of included routers FastAPI analyses each route again while the first request waits,
# and every request looks for its router first and then for its route.
ROUTES: tuple[BaseRoute, ...] = tuple(route for router in _ROUTERS for route in router.routes)


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
    reader = Reader(database)
    leases = Leases(database)
    service = Service(
        settings=settings,
        database=database,
        clock=clock,
        runner=runner,
        metrics=metrics,
        door=Door(
            database,
            HookRules(
                allowed_by(settings, lambda: is_asking(settings, database)),
                settings.hook_grace_s_max,
            ),
            settings.launcher,
        ),
        reader=reader,
        sight=Sight(database, reader),
        waiters=JobWaiters(database),
        feed=Feed(database),
        leases=leases,
        gate=gate_by(settings, database, clock),
    )
    if runner is not None:
        runner.silence = Silence(leases)
    app = FastAPI(
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
    )
    app.state.service = service
    for routes in (ROUTES, webhook_router(database).routes, extender_router(database).routes):
        app.routes.extend(routes)
    add_docs_page(app)
    add_dashboard(app)
    add_error_handlers(app)
    app.openapi = describe(app)  # type: ignore[method-assign]  # FastAPI's documented way
    _add_layers(app, service, metrics)
    return app


def _add_layers(app: FastAPI, service: Service, metrics: Metrics) -> None:
    """What requests pass before they come to a route; the last one added is the outermost."""
    settings, database, clock = service.settings, service.database, service.clock
    app.add_middleware(Express, service=service)
    app.add_middleware(EchoHeartbeats, leases=service.leases, clock=clock)
    app.add_middleware(
        Face,
        parts=Parts(database, clock, service.door),
        registry=registry(),
        closing=service.feed.closing,
    )
    app.add_middleware(Glimpse, sight=service.sight)
    app.add_middleware(
        Authenticate,
        gate=service.gate,
        table=TABLE,
        clock=clock,
        metrics=metrics,
        faces=(partial(asked_of, registry()),),
        answers={is_face: error_response},
    )
    app.add_middleware(
        Guard,
        is_loopback=settings.is_loopback,
        inventory_bytes_max=settings.body_bytes_max,
        answers={is_face: error_response},
    )
    if database.listener is not None:
        app.add_middleware(
            Patience, is_silent=lambda: database.is_silent, answers={is_face: error_response}
        )
    app.add_middleware(Observe, metrics=metrics)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: Service = app.state.service
    recorder = Recorder(service)
    lifecycle = Lifecycle(service.database, service.clock)
    if service.database.listener is not None:
        service.database.listener.start()
    await run_in_threadpool(service.gate.start)
    if service.runner is not None:
        await run_in_threadpool(service.runner.start)
        recorder.start()
        lifecycle.start()
    try:
        yield
    finally:
        await run_in_threadpool(recorder.stop)
        await run_in_threadpool(lifecycle.stop)
        await run_in_threadpool(service.sight.close)
        await service.feed.stop()
        await run_in_threadpool(service.waiters.close)
        if service.runner is not None:
            await run_in_threadpool(service.runner.stop)
        await run_in_threadpool(service.leases.close)
        await run_in_threadpool(service.gate.stop)
