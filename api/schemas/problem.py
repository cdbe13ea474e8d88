"""What an answer says when the request was not served (RFC 9457)."""

from api.schemas.common import Strict


class FieldProblem(Strict):
    """One thing that is wrong; `path` as in `roles[0].parts.min`, empty for the whole request."""

    path: str
    message: str


class ProblemDocument(Strict):
    """Sent as `application/problem+json`; `type` is stable for programs."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldProblem]
