"""Hooks: what they answer, and what was sent to them."""

import json
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from api.schemas.common import LINE_PATTERN, NAME_PATTERN, NODE_NAME_PATTERN, Page, Strict, Time
from api.schemas.job import NODES_MAX, HookEventName

DeliveryStateName = Literal["pending", "delivered", "dead", "withdrawn"]


class HookSaved(BaseModel):
    """What a checkpoint hook answers with 200 when the job has saved; other fields are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    state: Literal["saved"]
    step: Annotated[int, Field(ge=0, le=2**53)]
    uri: Annotated[str, StringConstraints(pattern=LINE_PATTERN, min_length=1, max_length=2_048)]
    tier: Annotated[str, StringConstraints(pattern=NAME_PATTERN)] | None = None
    nodes: Annotated[
        list[Annotated[str, StringConstraints(pattern=NODE_NAME_PATTERN)]],
        Field(max_length=NODES_MAX),
    ] = []


def read_saved(body: bytes) -> HookSaved | None:
    """The answer of a hook that has saved; None if it says anything else."""
    try:
        return HookSaved.model_validate(json.loads(body))
    except (ValueError, ValidationError, RecursionError):
        return None


class Delivery(Strict):
    """A message to a hook, as far as it has come.

    `id` is the `webhook-id` of every attempt. A message that is `pending` is sent at `due_at`.
    `status` and `error` are of the last attempt; `url` is without its query. A request to save has
    a `request_id`; `asked_at` is when it was first sent.
    """

    id: str
    kind: HookEventName | Literal["checkpoint.requested"]
    namespace: str
    job: str
    uid: str
    url: str
    state: DeliveryStateName
    attempts: int
    created_at: Time
    due_at: Time | None
    asked_at: Time | None
    done_at: Time | None
    request_id: str | None
    status: int | None
    error: str


class DeliveryPage(Page[Delivery]):
    """Messages to hooks, the newest first."""
