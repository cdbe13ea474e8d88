"""Whether a queue, and each queue above it, takes a job."""

from collections.abc import Iterator, Sequence

from api.auth.seen import Names, shown_queue, takes_any
from api.store.errors import NotFound
from api.store.queue_rows import QueueChain
from scheduler.errors import JobError, Problem
from scheduler.model.job import JobSpec
from scheduler.model.queue import QueueRecord
from scheduler.order.shares import Denied, never_allowed


def check_queue(
    spec: JobSpec, queue: QueueChain | None, names: Names = None, *, is_move: bool = True
) -> None:
    """Refuse a job that its queue does not take; limits apart.

    Args:
        queue: None if it does not exist.
        names: The namespaces that the caller is bound to. A queue that takes no jobs of them is
            spoken of as if it were not there.
        is_move: The job is new to the queue; else only its priority is looked at.

    Raises:
        JobError: With every reason, by field.
    """
    is_known = not is_move  # a job that is in a queue names it
    if queue is None or not (is_known or takes_any(names, queue.queues)):
        raise JobError(Problem("queue", str(NotFound("queue", spec.queue))))
    problems = list(_priority(spec, queue.queues))
    if is_move:
        refusals = _namespaces(spec, queue.queues, names)
        problems = [*_standing(spec, queue, names), *refusals, *problems]
    if problems:
        raise JobError(problems)


def never_in(spec: JobSpec, queue: QueueChain | None) -> Denied | None:
    """The queue whose limit the job's minimum exceeds by itself; None = no queue's does."""
    return None if queue is None else never_allowed(spec, queue.queues)


def _standing(spec: JobSpec, queue: QueueChain, names: Names) -> Iterator[Problem]:
    for found in queue.queues:
        if found.closed:
            yield Problem("queue", f"{_called(found, spec)} is closed and takes no jobs")
    if queue.below is not None:
        example = f", such as '{queue.below}'," if names is None else ""
        yield Problem(
            "queue",
            f"queue '{spec.queue}' has queues below it{example} and no jobs of its own; choose "
            "one of those",
        )


def _namespaces(spec: JobSpec, queues: Sequence[QueueRecord], names: Names) -> Iterator[Problem]:
    for found in queues:
        if found.namespaces and spec.namespace not in found.namespaces:
            told = shown_queue(names, found).namespaces
            allowed = ", ".join(f"'{name}'" for name in told[:10])
            yield Problem(
                "queue",
                f"{_called(found, spec)} is for the namespaces {allowed}; the job's is "
                f"'{spec.namespace}'",
            )


def _priority(spec: JobSpec, queues: Sequence[QueueRecord]) -> Iterator[Problem]:
    for found in queues:
        if found.max_priority is not None and spec.priority > found.max_priority:
            yield Problem(
                "priority",
                f"found {spec.priority}; {_called(found, spec)} allows at most "
                f"{found.max_priority}",
            )


def _called(queue: QueueRecord, spec: JobSpec) -> str:
    above = "" if queue.name == spec.queue else f", above queue '{spec.queue}',"
    return f"queue '{queue.name}'{above}"
