"""All routes and faces, and what works for them: most code, made after the first decision."""

from functools import partial

from fastapi import FastAPI
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from api.dashboard.page import add_dashboard
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
from api.http.docs_page import add_docs_page
from api.http.errors import add_error_handlers
from api.http.later import Rest
from api.http.openapi import describe
from api.http.recorder import Recorder
from api.http.service import Service
from api.k8s.extender.routes import extender_router
from api.k8s.face import Face, error_response
from api.k8s.kinds import Parts
from api.k8s.registry import registry
from api.k8s.rights import asked_of
from api.k8s.volcano.lifecycle import Lifecycle
from api.k8s.webhook.routes import webhook_router

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


class Routed(FastAPI):
    """Routes that let out what they run into, instead of answering it as no other error is."""

    def build_middleware_stack(self) -> ASGIApp:
        stack = super().build_middleware_stack()
        return stack.app if isinstance(stack, ServerErrorMiddleware) else stack


def make_rest(service: Service) -> Rest:
    """What answers the calls of a service."""
    database, clock = service.database, service.clock
    app = Routed(docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.service = service
    for routes in (ROUTES, webhook_router(database).routes, extender_router(database).routes):
        app.routes.extend(routes)
    add_docs_page(app)
    add_dashboard(app)
    add_error_handlers(app)
    app.openapi = describe(app)  # type: ignore[method-assign]  # FastAPI's documented way
    return Rest(
        app=Face(
            app,
            parts=Parts(database, clock, service.door),
            registry=registry(),
            closing=service.feed.closing,
        ),
        routed=app,
        asked_of=partial(asked_of, registry()),
        tell=error_response,
        workers=(Recorder(service), Lifecycle(database, clock)),
    )
