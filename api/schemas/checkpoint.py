"""Checkpoints that jobs tell of."""

from typing import Annotated

from pydantic import Field, StringConstraints

from api.schemas.common import LINE_PATTERN, Line, Name, NodeName, Page, Strict, Time
from api.schemas.job import NODES_MAX

SomeUri = Annotated[str, StringConstraints(pattern=LINE_PATTERN, min_length=1, max_length=2_048)]


class CheckpointReport(Strict):
    """What a job has saved: up to which step of its training, and where.

    `tier` is the job's own word for the kind of storage, `nodes` those that hold copies,
    `request_id` that of the request to save which this answers.
    """

    step: Annotated[int, Field(ge=0, le=2**53)]
    uri: SomeUri
    tier: Name | None = None
    nodes: Annotated[list[NodeName], Field(max_length=NODES_MAX)] = []
    request_id: Line | None = None


class Checkpoint(Strict):
    """A checkpoint that a job told of.

    It `exists` while it is kept elsewhere than on nodes, or one of the nodes that hold copies is
    not lost; `lost_nodes` are.
    """

    step: int
    uri: str
    tier: str | None
    nodes: list[str]
    lost_nodes: list[str]
    exists: bool
    request_id: str | None
    at: Time
    revision: int


class CheckpointPage(Page[Checkpoint]):
    """Checkpoints of a job, the newest first."""
