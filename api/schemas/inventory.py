"""Imports of an inventory."""

from typing import Literal

from pydantic import Field

from api.schemas.common import Strict


class FieldChange(Strict):
    """A field that differs; null = not there."""

    field: str
    before: str | None = Field(alias="from")
    after: str | None = Field(alias="to")


class NodeChange(Strict):
    """A node that differs."""

    node: str
    change: Literal["created", "updated", "removed", "kept"]
    fields: list[FieldChange]


class Imported(Strict):
    """What an import changed, in nodes; with `dry_run`, what it would have changed.

    `kept` nodes would have gone, or lost GPUs, but hold live pods; a warning names each. `format`
    is the one that was named or guessed. `changes` tells of 500 nodes at the most, kept and removed
    ones first, and `changes_left_out` how many more there are; `cluster_changes` tells what differs
    beside the nodes.
    """

    format: str
    created: int
    updated: int
    unchanged: int
    removed: int
    kept: int
    warnings: list[str]
    cluster_changes: list[FieldChange]
    changes: list[NodeChange]
    changes_left_out: int
    revision: int
