"""The composition root: builds the app from its parts, and owns start and stop."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from api.admission.admit import Door
from api.admission.hooks import HookRules
from api.auth.table import Asked
from api.clock import Clock
from api.hooks.configured import allowed_by
from api.http.alive import Alive
from api.http.authenticate import Authenticate
from api.http.echo import EchoHeartbeats
from api.http.express import Express
from api.http.feed import Feed
from api.http.gating import gate_by, is_asking
from api.http.glimpse import Glimpse
from api.http.guard import Answers, Guard
from api.http.later import Later, Rest, Until
from api.http.observe import Observe
from api.http.patience import Patience
from api.http.reader import Reader
from api.http.rights import TABLE
from api.http.service import Service
from api.http.sight import Sight
from api.http.waiters import JobWaiters
from api.k8s.request import is_face
from api.loop.runner import Runner
from api.loop.silence import Silence
from api.metrics import Metrics
from api.settings import Settings
from api.store.engine import Database
from api.store.leases import Leases

if TYPE_CHECKING:
    from fastapi import FastAPI


def create_app(
    settings: Settings,
    database: Database,
    clock: Clock,
    runner: Runner | None,
    metrics: Metrics | None = None,
) -> "App":
    """The service as an ASGI app.

    Args:
        runner: Started and stopped with the app; None where another process decides.
        metrics: Those that the runner counts in; its own by default.
    """
    reader = Reader(database)
    leases = Leases(database)
    service = Service(
        settings=settings,
        database=database,
        clock=clock,
        runner=runner,
        metrics=metrics or Metrics(),
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
    return App(service)


class App:
    """A service's layers, and what they wrap; starts and stops its threads.

    Attributes:
        service: Its parts.
        later: What is made once the service has decided for the first time.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        self.later = Later(self._make_rest)
        self._layers = _layered(service, self.later)
        self._lifespan = Router(lifespan=self._running).lifespan

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        else:
            await self._layers(scope, receive, send)

    @property
    def routed(self) -> "FastAPI":
        """The routes and their description."""
        return self.later.rest().routed

    def _make_rest(self) -> Rest:
        from api.routes import make_rest

        return make_rest(self.service)

    @asynccontextmanager
    async def _running(self, _: object) -> AsyncIterator[None]:
        service, later = self.service, self.later
        runner = service.runner
        if service.database.listener is not None:
            service.database.listener.start()
        await run_in_threadpool(service.gate.start)
        if runner is not None:
            await run_in_threadpool(runner.start)
        later.start(None if runner is None else runner.has_turned, works=runner is not None)
        try:
            yield
        finally:
            await run_in_threadpool(later.stop)
            await run_in_threadpool(service.sight.close)
            await service.feed.stop()
            await run_in_threadpool(service.waiters.close)
            if runner is not None:
                await run_in_threadpool(runner.stop)
            await run_in_threadpool(service.leases.close)
            await run_in_threadpool(service.gate.stop)


def _layered(service: Service, later: Later) -> ASGIApp:
    """What calls pass before they come to a route; from the innermost to the outermost."""
    settings, database, clock = service.settings, service.database, service.clock

    def asked_of(method: str, path: str) -> Asked | None:
        return later.rest().asked_of(method, path) if is_face(path) else None

    def tell(error: Exception) -> Response:
        return later.rest().tell(error)

    answers: Answers = {is_face: tell}
    app: ASGIApp = later
    app = Express(app, service=service)
    app = EchoHeartbeats(app, leases=service.leases, clock=clock)
    app = Alive(app)
    app = Glimpse(app, sight=service.sight)
    app = Authenticate(
        app,
        gate=service.gate,
        table=TABLE,
        clock=clock,
        metrics=service.metrics,
        faces=(asked_of,),
        answers=answers,
    )
    app = Guard(
        app,
        is_loopback=settings.is_loopback,
        inventory_bytes_max=settings.body_bytes_max,
        answers=answers,
    )
    if database.listener is not None:
        app = Patience(app, is_silent=lambda: database.is_silent, answers=answers)
    app = Until(app, later=later, is_concerned=is_face)
    return Observe(app, metrics=service.metrics)
