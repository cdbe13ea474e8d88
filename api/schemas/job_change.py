"""Changes of a job that was submitted."""

from typing import Annotated

from pydantic import Field

from api.schemas.common import Name, Priority, Size, SomeSeconds, Strict
from api.schemas.job import ROLES_MAX


class RolePatch(Strict):
    """Another number of members for one role; what is left out stays.

    Of a role with parts, both numbers are multiples of `parts.size`.
    """

    name: Name
    replicas: Size = 1
    min: Size = 1


class JobPatch(Strict):
    """Fields of a job to change; those that are left out stay, null takes a time away.

    `replicas` and `min` are those of a job's only role; with several, `roles` says of which. A
    minimum of all members follows `replicas` down, and up while the job has no place. `queue`
    changes while the job is pending. With `revision` the change is made only if the job is still at
    it, as with `If-Match`.
    """

    priority: Priority = 0
    queue: Name = "default"
    duration_s: SomeSeconds | None = None
    time_limit_s: SomeSeconds | None = None
    replicas: Size = 1
    min: Size = 1
    roles: Annotated[list[RolePatch], Field(max_length=ROLES_MAX)] = []
    revision: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = None
