"""Pods: where the members of jobs are, and what their nodes report of them."""

from typing import Annotated, Literal

from pydantic import Field

from api.schemas.common import Line, Page, Strict

PodStateName = Literal[
    "bound", "running", "terminating", "lost", "stopped", "succeeded", "failed", "cancelled"
]


class Pod(Strict):
    """One member of a gang on one node.

    `job` is `namespace/name`. `index` counts within the role (`rank` for the pods of a parallel
    job). `gpus` are indices on the node; the k-th of them has the k-th of `ranks`. `attempt` is the
    pod's own and grows when it starts anew.
    """

    namespace: str
    job: str
    name: str
    role: str
    index: int
    node: str
    gpus: list[int]
    ranks: list[int]
    state: PodStateName
    uid: str
    attempt: int
    exit_code: int | None
    domains: dict[str, str | None]
    revision: int


class PodPage(Page[Pod]):
    """Pods by the age of their job, by role and index."""


class StatusBody(Strict):
    """What a node says of a pod: the life it speaks of, and what became of it.

    `exit_code` belongs to `succeeded` (0) and `failed`. With `uid` a report that comes late is not
    taken for one of the pod that has the name by now.
    """

    attempt: Annotated[int, Field(ge=1, le=2**31 - 1)]
    state: Literal["running", "stopped", "succeeded", "failed"]
    exit_code: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] | None = None
    uid: Line | None = None
