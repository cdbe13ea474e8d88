"""From exceptions to problem documents; the table is `api/problems.py`."""

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from api.http.guard import BadRequest, NoSuchPath, WrongMethod, problem_response
from api.schemas.reading import InvalidFields, field_problems
from api.store.errors import StoreError
from scheduler.errors import Problem, SchedulerError

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def add_error_handlers(app: FastAPI) -> None:
    """Have every error answered as a problem document."""
    app.add_exception_handler(SchedulerError, _answer)
    app.add_exception_handler(StoreError, _answer)
    app.add_exception_handler(RequestValidationError, _answer_parameters)
    app.add_exception_handler(HTTPException, _answer_router)


async def _answer(_: Request, error: Exception) -> Response:
    return problem_response(error)


async def _answer_parameters(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    errors = [e | {"loc": e["loc"][1:]} for e in error.errors()]
    if any(e["loc"][0] == "path" for e in error.errors()):
        return problem_response(NoSuchPath(Problem("", f"nothing is called {_path_of(request)}")))
    return problem_response(InvalidFields(field_problems(errors, None)))


async def _answer_router(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    if error.status_code == 404:
        return problem_response(NoSuchPath(Problem("", f"there is no {_path_of(request)}")))
    if error.status_code == 405:
        allowed = ", ".join(_methods_of(request))
        told = WrongMethod(
            Problem("", f"found {request.method}; {_path_of(request)} has {allowed}")
        )
        return problem_response(told, {"Allow": allowed})
    return problem_response(BadRequest(Problem("", str(error.detail)[:200])))


def _path_of(request: Request) -> str:
    return f"'{request.url.path[:200]}'"


def _methods_of(request: Request) -> list[str]:
    """Methods that some route has for this path; each route by itself knows only its own."""
    found: set[str] = set()
    for route in request.app.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return [method for method in _METHODS if method in found]
