"""What a limit says to a gang, and what of a gang is within one."""

from dataclasses import dataclass, replace

from scheduler.model.job import JobSpec, Role
from scheduler.model.lifecycle import Reason
from scheduler.model.placement import NoFit


@dataclass(frozen=True, slots=True)
class Denied:
    """A queue does not let a gang start.

    Attributes:
        reason: `limit` or `closed`.
        queue: The one that denies: the gang's own or one above it.
        message: Names the queue, its limit, what it uses and what the gang wants.
        never: Not even with nothing used; waiting does not help.
    """

    reason: Reason
    queue: str
    message: str
    never: bool = False

    def verdict(self) -> NoFit:
        """The same as the answer of a placement."""
        return NoFit(never=self.never, code=self.reason, message=self.message)


def closed_message(name: str, queue: str) -> str:
    """What a job of `queue` is told when `name`, the same or one above it, is closed."""
    above = "" if name == queue else f", above queue '{queue}',"
    return f"queue '{name}'{above} is closed; its jobs do not start until it is opened"


def limit_denied(name: str, queue: str, model: str, limit: int, used: int, wanted: int) -> Denied:
    """What a job of `queue` is told that wants more than the limit of `name` leaves.

    Args:
        model: GPU model that is limited; "" = GPUs of all models.
        limit, used, wanted: GPUs.
    """
    above = "" if name == queue else f", above queue '{queue}',"
    gpus = f"{model} GPUs" if model else "GPUs"
    field = f"limit_by_model of {limit} {gpus}" if model else f"limit_gpus of {limit}"
    never = wanted > limit
    ending = "; that never fits" if never else f" and {used} are in use"
    return Denied(
        Reason.LIMIT,
        name,
        f"queue '{name}'{above} has a {field}; the job wants {wanted} {gpus}{ending}",
        never,
    )


def cut(spec: JobSpec, room: int) -> JobSpec:
    """The job with members above the minimum left out until it wants at most `room` GPUs."""
    excess = spec.gpu_count - room
    if excess <= 0 or not spec.roles:
        return spec
    roles: list[Role] = []
    for role in reversed(spec.roles):
        size = role.parts.size if role.parts is not None else 1
        step = size * role.gpus
        if step and excess > 0:
            leave = min((role.replicas - role.min) // size, -(-excess // step))
            excess -= leave * step
            role = _fewer(role, leave * size)
        roles.append(role)
    return replace(spec, roles=tuple(reversed(roles)))


def _fewer(role: Role, members: int) -> Role:
    if not members:
        return role
    left = role.replicas - members
    if role.parts is None:
        return replace(role, replicas=left)
    return replace(role, replicas=left, parts=replace(role.parts, count=left // role.parts.size))
