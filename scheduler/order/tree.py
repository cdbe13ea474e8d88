"""What a tree of queues must be so that every promise it makes can be kept."""

from collections.abc import Iterator, Mapping, Sequence

from scheduler.errors import Problem, QueueError
from scheduler.model.queue import DEPTH_MAX, QueueRecord

Queues = Mapping[str, QueueRecord]


def check_queue(queue: QueueRecord, others: Queues) -> None:
    """Refuse a queue that, new or changed, would make a tree that cannot be.

    Parents exist, form no circle and are not too many; a quota is within the limits of its queue
    and of those above; quotas of children together are within their parent's quota. A limit below
    that of a queue above is fine: the smaller one is the one that counts.

    Args:
        others: Every other queue; one of the same name is not looked at.

    Raises:
        QueueError: With every problem found, by field.
    """
    tree = {**others, queue.name: queue}
    problems = list(_place(queue, tree))
    if not problems:
        problems += _own(queue)
        problems += _above(queue, tree)
        problems += _below(queue, tree)
    if problems:
        raise QueueError(problems)


def chain(name: str, queues: Queues) -> tuple[QueueRecord, ...]:
    """The queue and all above it, itself first; ends where a parent is missing."""
    out: list[QueueRecord] = []
    at: str | None = name
    while at is not None and at in queues and len(out) < DEPTH_MAX:
        out.append(queues[at])
        at = queues[at].parent
    return tuple(out)


def quota_of(queue: QueueRecord, model: str | None) -> int | None:
    """Its quota of all GPUs, or of a model; quotas by model count as a quota of all GPUs too."""
    if model is not None:
        return queue.quota_by_model.get(model)
    if queue.quota_gpus is not None:
        return queue.quota_gpus
    return sum(queue.quota_by_model.values()) if queue.quota_by_model else None


def limit_of(queue: QueueRecord, model: str | None) -> int | None:
    """Its limit of all GPUs, or of a model."""
    return queue.limit_gpus if model is None else queue.limit_by_model.get(model)


def _place(queue: QueueRecord, tree: Queues) -> Iterator[Problem]:
    """Follow the parents up: they exist, end, and are not too many."""
    depth, at = 1, queue.parent
    while at is not None:
        if at == queue.name:
            found = f"found '{queue.parent}'; queue '{queue.name}' would lie below itself"
            yield Problem("parent", f"{found}: name a queue that is not below it")
            return
        if at not in tree:
            yield Problem("parent", f"queue '{at}' does not exist")
            return
        depth, at = depth + 1, tree[at].parent
    depth += _height(queue.name, tree)
    if depth > DEPTH_MAX:
        yield Problem(
            "parent",
            f"queue '{queue.name}' would make a tree of {depth} levels; at most {DEPTH_MAX}",
        )


def _height(name: str, tree: Queues) -> int:
    """Levels of queues below a queue."""
    below = _children(tree)
    row, height = [name], -1
    while row:
        height += 1
        row = [child.name for parent in row for child in below.get(parent, ())]
    return height


def _children(tree: Queues) -> dict[str, list[QueueRecord]]:
    out: dict[str, list[QueueRecord]] = {}
    for queue in tree.values():
        if queue.parent is not None:
            out.setdefault(queue.parent, []).append(queue)
    return out


def _own(queue: QueueRecord) -> Iterator[Problem]:
    """Quota and limit of one queue by themselves."""
    total = sum(queue.quota_by_model.values())
    if queue.quota_gpus is not None and total > queue.quota_gpus:
        yield Problem(
            "quota_by_model",
            f"found {total} GPUs in all; they must be within quota_gpus, {queue.quota_gpus}",
        )
    for model in _models([queue]):
        quota, limit = quota_of(queue, model), limit_of(queue, model)
        if quota is not None and limit is not None and quota > limit:
            yield Problem(
                _field("limit", model),
                f"found {limit}; it must be at least the quota, {quota}: what is guaranteed must "
                "be allowed",
            )


def _models(queues: Sequence[QueueRecord]) -> list[str | None]:
    """None for GPUs of all models, then every model that one of the queues names."""
    named = {m for q in queues for m in (*q.quota_by_model, *q.limit_by_model)}
    return [None, *sorted(named)]


def _field(kind: str, model: str | None) -> str:
    return f"{kind}_gpus" if model is None else f"{kind}_by_model.{model}"


def _above(queue: QueueRecord, tree: Queues) -> Iterator[Problem]:
    """What the queue and those below it are promised, within what each queue above allows."""
    above = chain(queue.name, tree)[1:]
    below = _children(tree)
    for model in _models([queue, *above]):
        if not _promised(queue, model, below):
            continue
        for parent in above:
            limit = limit_of(parent, model)
            promised = sum(_promised(child, model, below) for child in below[parent.name])
            if limit is not None and promised > limit:
                yield _too_much(queue, parent, "limit", model, promised, limit)
            quota = quota_of(parent, model)
            if quota is not None:
                if promised > quota:
                    yield _too_much(queue, parent, "quota", model, promised, quota)
                break


def _too_much(
    queue: QueueRecord,
    parent: QueueRecord,
    kind: str,
    model: str | None,
    promised: int,
    there: int,
) -> Problem:
    path = _field("quota", model) if quota_of(queue, model) is not None else "parent"
    return Problem(
        path,
        f"the queues below queue '{parent.name}' would be guaranteed {promised} GPUs together; its "
        f"{_field(kind, model)} is {there}",
    )


def _below(queue: QueueRecord, tree: Queues) -> Iterator[Problem]:
    """What the queues below are promised, within what this one is and allows."""
    below = _children(tree)
    children = below.get(queue.name, [])
    for model in _models([queue]):
        promised = sum(_promised(child, model, below) for child in children)
        for kind, there in (("quota", quota_of(queue, model)), ("limit", limit_of(queue, model))):
            if there is not None and promised > there:
                yield Problem(
                    _field(kind, model),
                    f"found {there}; the queues below queue '{queue.name}' are guaranteed "
                    f"{promised} GPUs together",
                )


def _promised(queue: QueueRecord, model: str | None, below: Mapping[str, list[QueueRecord]]) -> int:
    """GPUs that a queue is guaranteed: its quota, or where it has none, those below it."""
    quota = quota_of(queue, model)
    if quota is not None:
        return quota
    return sum(_promised(child, model, below) for child in below.get(queue.name, ()))
