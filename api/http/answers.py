"""Answers: JSON without a detour, and what the API's description says of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from api.problems import KINDS, MEDIA_TYPE, document
from api.schemas.common import Strict
from api.schemas.reading import write_json
from scheduler.errors import Problem

SCHEMAS = "#/components/schemas/"

_EXAMPLES: Mapping[int, tuple[str, Problem]] = {
    400: ("MalformedBody", Problem("", "the body is not JSON: expected value at line 1 column 1")),
    401: (
        "Unauthenticated",
        Problem("Authorization", "the token is none of this service, revoked or over"),
    ),
    403: (
        "Forbidden",
        Problem(
            "",
            "'llm-team' has the role submitter: this needs the right 'operate', which is of "
            "operator, admin",
        ),
    ),
    404: ("NotFound", Problem("", "job 'research/llama-70b' does not exist")),
    409: ("Conflict", Problem("name", "job 'research/llama-70b' is running; its name is in use")),
    410: (
        "Gone",
        Problem("", "events since revision 3 are no longer kept; the oldest start is 900"),
    ),
    413: (
        "BodyTooLarge",
        Problem("", "found 50000000 bytes; at most 4194304 bytes are allowed here"),
    ),
    415: (
        "WrongMediaType",
        Problem("Content-Type", "found 'text/html'; allowed here are application/json, in UTF-8"),
    ),
    422: (
        "InvalidFields",
        Problem("roles[0].parts.min", "found 0; it must be at least 1"),
    ),
    429: (
        "QueueFull",
        Problem(
            "queue",
            "queue 'research' has a max_pending of 500, and 500 jobs wait in it and below",
        ),
    ),
    503: ("OperationalError", Problem("", "the database does not answer")),
}


class Json(Response):
    """Plain values as JSON."""

    media_type = "application/json"

    def __init__(
        self, value: object, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(write_json(value), status, headers=headers)


Documented = dict[int | str, dict[str, Any]]  # FastAPI's own type


def answers(
    model: type[Strict],
    example: object,
    *errors: int,
    status: int = 200,
    says: str = "As asked for.",
    also: Documented | None = None,
) -> Documented:
    """What a route answers: one success with an example, and its errors with one each.

    503 is among the errors of all: the database may be away at any time.
    """
    success: dict[str, Any] = {
        "model": model,
        "description": says,
        "content": {"application/json": {"example": example}},
    }
    problems = {code: problem_answer(code) for code in (*errors, 503)}
    return {status: success} | problems | (also or {})


def problem_answer(status: int) -> dict[str, Any]:
    """What the description says of one error status."""
    name, problem = _EXAMPLES[status]
    kind = KINDS[name]
    content = {
        "schema": {"$ref": f"{SCHEMAS}ProblemDocument"},
        "example": document(kind, [problem]),
    }
    return {"description": kind.title, "content": {MEDIA_TYPE: content}}


def takes(
    model: type[Strict],
    examples: Mapping[str, object],
    *,
    also: Sequence[str] = (),
    required: bool = True,
) -> dict[str, Any]:
    """What a route takes as its body, for `openapi_extra`.

    Args:
        examples: By a few words that say what each shows.
        also: Content types beside JSON.
    """
    content = {
        "schema": {"$ref": f"{SCHEMAS}{model.__name__}"},
        "examples": _named(examples),
    }
    kinds = ("application/json", *also)
    return {"requestBody": {"required": required, "content": dict.fromkeys(kinds, content)}}


def takes_text(kinds: Sequence[str], examples: Mapping[str, str]) -> dict[str, Any]:
    """What a route takes as its body when that is text."""
    content = {"schema": {"type": "string"}, "examples": _named(examples)}
    return {"requestBody": {"required": True, "content": dict.fromkeys(kinds, content)}}


def text_answer(kind: str, example: str, says: str) -> Documented:
    """What a route answers when that is text."""
    content = {kind: {"schema": {"type": "string"}, "example": example}}
    return {200: {"description": says, "content": content}}


def _named(examples: Mapping[str, object]) -> dict[str, object]:
    return {
        words.replace(" ", "_"): {"summary": words, "value": value}
        for words, value in examples.items()
    }
