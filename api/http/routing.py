"""Routes that refuse query parameters they do not know, and what several of them are given."""

from collections.abc import Callable, Coroutine
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from api.auth import Caller
from api.auth.seen import caller_in
from api.http.service import Service
from api.http.submitting import KEY_MAX, KEY_PATTERN
from api.http.waiting import WAIT_S_MAX, WaitFor
from api.schemas.common import LINE_PATTERN, NAME_PATTERN
from api.schemas.reading import InvalidFields
from scheduler.errors import Problem

PAGE_MAX = 1_000
REVISION_MAX = 2**63 - 1

Limit = Annotated[int, Query(ge=1, le=PAGE_MAX, description="Items of a page.")]
Cursor = Annotated[
    str | None,
    Query(max_length=1_000, pattern=LINE_PATTERN, description="`next` of the page before."),
]
Since = Annotated[
    int, Query(ge=0, le=REVISION_MAX, description="Only what happened after this revision.")
]
RevisionCursor = Annotated[
    str | None, Query(pattern=r"^[0-9]{1,18}$", description="`next` of the page before.")
]
OffsetCursor = Annotated[
    str | None, Query(pattern=r"^[0-9]{1,9}$", description="`next` of the page before.")
]
NameFilter = Annotated[str | None, Query(pattern=NAME_PATTERN)]
LineFilter = Annotated[str | None, Query(max_length=253, pattern=LINE_PATTERN)]

# What is not a name here names nothing: such a path is answered 404, not 422.
NamePath = Annotated[str, Path(max_length=253, pattern=LINE_PATTERN)]


Wait = Annotated[
    WaitFor | None,
    Query(description="Answer when the job is so far, or at the time-out as it is then."),
]
Timeout = Annotated[
    float,
    Query(ge=0, le=WAIT_S_MAX, allow_inf_nan=False, description="Longest wait, in seconds."),
]
IdempotencyHeader = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=KEY_MAX,
        pattern=KEY_PATTERN,
        description="A caller's requests with equal keys in one namespace are one job, for 24 "
        "hours.",
    ),
]


async def service_of(request: Request) -> Service:
    """The service of a request; a coroutine, as a plain function would cost a thread."""
    service = request.app.state.service
    if not isinstance(service, Service):
        raise TypeError("the app was not made by make_rest")
    return service


async def caller_of(request: Request) -> Caller:
    """The request's caller; a coroutine, as a plain function would cost a thread."""
    return caller_in(request.scope)


Served = Annotated[Service, Depends(service_of)]
Called = Annotated[Caller, Depends(caller_of)]


class StrictRoute(APIRoute):
    """A misspelt filter would otherwise be a filter that is not there."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[None, None, Response]]:
        handle = super().get_route_handler()
        known = sorted(_query_names(self.dependant))

        async def strict(request: Request) -> Response:
            if request.scope["query_string"]:
                _check_query(request, known)
            return await handle(request)

        return strict


def make_router(tag: str) -> APIRouter:
    """Of routes that the app takes as they are."""
    return APIRouter(route_class=StrictRoute, tags=[tag], generate_unique_id_function=_name_of)


def _name_of(route: APIRoute) -> str:
    """`submit_job` reads better than FastAPI's `submit_job_v1_jobs_post`."""
    return route.name


def _query_names(dependant: Dependant) -> set[str]:
    names = {field.alias for field in dependant.query_params}
    return names.union(*(_query_names(inner) for inner in dependant.dependencies))


def _check_query(request: Request, known: list[str]) -> None:
    problems = []
    for name in request.query_params:
        if name not in known:
            allowed = f"allowed here are {', '.join(known)}" if known else "none is allowed here"
            problems.append(Problem(name[:80], f"unknown query parameter; {allowed}"))
        elif len(request.query_params.getlist(name)) > 1:
            problems.append(Problem(name, "is given more than once"))
    if problems:
        raise InvalidFields(problems)
