"""Usage accounting."""

from api.schemas.common import Page, Strict


class Usage(Strict):
    """What one owner used of one GPU model in a month, up to now.

    Attributes:
        queue, namespace, job, uid: Of the owner; null where usage is not summed up by it. A job
            whose record was deleted is still here.
        gpu: GPU model.
        gpu_seconds: From the binding of each pod until it left its GPUs, to the millisecond.
        gpu_hours: The same in hours.
    """

    month: str
    queue: str | None
    namespace: str | None
    job: str | None
    uid: str | None
    gpu: str
    gpu_seconds: float
    gpu_hours: float


class UsagePage(Page[Usage]):
    """Usage by owner, then GPU model; jobs in the order of their submission."""
