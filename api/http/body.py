"""Reading bodies: content type, size, then fields; nothing is kept of a body that is too large."""

from collections.abc import Awaitable, Callable
from email.message import Message
from typing import TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from api.schemas.common import Strict
from api.schemas.reading import INLINE_BYTES, MalformedBody, read_json, write_json
from scheduler.errors import InventoryError, Problem, SchedulerError
from scheduler.importers import yaml_text

ModelT = TypeVar("ModelT", bound=Strict)

JSON = "application/json"
YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")

YAML_VALUES_MAX = 200_000
"""Values of a YAML body, those behind aliases counted each time."""


class WrongMediaType(SchedulerError):
    """A body of a content type that the path does not take."""

    def __init__(self, found: str, allowed: tuple[str, ...]) -> None:
        said = f"found '{found[:80]}'" if found else "found none"
        super().__init__(
            Problem("Content-Type", f"{said}; allowed here are {', '.join(allowed)}, in UTF-8")
        )


def media_type(request: Request, allowed: tuple[str, ...]) -> str:
    """The body's content type, without parameters.

    Raises:
        WrongMediaType: If it is not allowed or in another encoding than UTF-8.
    """
    said = request.headers.get("content-type", "")
    message = Message()
    message["content-type"] = said
    found = message.get_content_type() if said else ""
    charset = message.get_content_charset("utf-8")
    if found not in allowed or charset not in {"utf-8", "utf8", "us-ascii"}:
        raise WrongMediaType(said, allowed)
    return found


def json_body(model: type[ModelT]) -> Callable[[Request], Awaitable[ModelT]]:
    """A dependency that reads a JSON body."""

    async def read(request: Request) -> ModelT:
        media_type(request, (JSON,))
        return await _parsed(model, await request.body())

    return read


def json_or_yaml_body(model: type[ModelT]) -> Callable[[Request], Awaitable[ModelT]]:
    """A dependency that reads a JSON or YAML body."""

    async def read(request: Request) -> ModelT:
        kind = media_type(request, (JSON, *YAML_TYPES))
        body = await request.body()
        if kind == JSON:
            return await _parsed(model, body)
        return await run_in_threadpool(lambda: read_json(model, _yaml_as_json(body)))

    return read


def optional_json_body(model: type[ModelT]) -> Callable[[Request], Awaitable[ModelT]]:
    """A dependency that reads a JSON body, or takes an empty one for `{}`."""

    async def read(request: Request) -> ModelT:
        body = await request.body()
        if not body:
            return model()
        media_type(request, (JSON,))
        return await _parsed(model, body)

    return read


async def _parsed(model: type[ModelT], body: bytes) -> ModelT:
    if len(body) <= INLINE_BYTES:
        return read_json(model, body)
    return await run_in_threadpool(read_json, model, body)


def _yaml_as_json(body: bytes) -> bytes:
    try:
        value = yaml_text.read(body).value
    except InventoryError as error:
        raise MalformedBody(error.problems) from None
    _refuse_bombs(value)
    return write_json(value)


def _refuse_bombs(value: object) -> None:
    """A few lines of YAML can stand for millions of values that JSON would write out."""
    count, left = 0, [value]
    while left:
        count += 1
        if count > YAML_VALUES_MAX:
            raise MalformedBody(
                Problem("", f"stands for more than {YAML_VALUES_MAX} values; that is not allowed")
            )
        item = left.pop()
        if isinstance(item, dict):
            left.extend(item.values())
        elif isinstance(item, list):
            left.extend(item)
