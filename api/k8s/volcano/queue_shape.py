"""A queue in both worlds: what Volcano's spec says of GPUs, weight and parent, and the rest."""

from fractions import Fraction

from api.k8s.volcano.gang import GPU_RESOURCES
from api.k8s.volcano.pod_rules import number_at, text_at, tree
from api.k8s.volcano.shape import Tree
from api.k8s.volcano.site import ROOT, amounts_of
from api.store.objects import ObjectRow
from scheduler.model.queue import QueueRecord

QUEUES = "queues.scheduling.volcano.sh"
"""What stored metadata of queues is filed under."""

GPUS = GPU_RESOURCES[0]
WEIGHT_MAX = 65_535
GPUS_MAX = 10**9
"""More than there are anywhere: as good as no limit, and a number that a database takes."""


def limits_of(spec: Tree) -> tuple[int | None, int | None]:
    """Quota and limit in GPUs: what is deserved, or else guaranteed; what it never exceeds."""
    deserved, capability = amounts_of(spec, "deserved"), amounts_of(spec, "capability")
    guarantee = amounts_of(spec, "guarantee")
    quota = _gpus(deserved)
    return (_gpus(guarantee) if quota is None else quota), _gpus(capability)


def _gpus(amounts: dict[str, Fraction]) -> int | None:
    found = [int(amounts[name]) for name in GPU_RESOURCES if name in amounts]
    return min(sum(found), GPUS_MAX) if found else None


def record_of(name: str, spec: Tree, old: QueueRecord | None = None) -> QueueRecord:
    """The queue that a spec describes; what only Podyard knows of it stays as it was."""
    quota, limit = limits_of(spec)
    parent = text_at(spec, "parent")
    base = old or QueueRecord(name)
    weight = float(number_at(spec, "weight", 1))
    if old is not None and round(old.weight) == weight:
        weight = old.weight  # Volcano's is whole
    return QueueRecord(
        name=name,
        parent=parent if parent not in ("", ROOT) else None,
        quota_gpus=quota,
        limit_gpus=limit,
        quota_by_model=base.quota_by_model,
        limit_by_model=base.limit_by_model,
        weight=weight,
        max_priority=base.max_priority,
        max_pending=base.max_pending,
        namespaces=base.namespaces,
        closed=base.closed,
    )


def shown_spec(record: QueueRecord, row: ObjectRow | None) -> Tree:
    """The spec of a queue: as it was written, with what has been changed since in `/v1`."""
    spec = dict(tree(row.body, "spec")) if row is not None else {}
    spec.setdefault("reclaimable", True)
    spec.setdefault("dequeueStrategy", "traverse")
    spec["weight"] = min(WEIGHT_MAX, max(1, round(record.weight)))
    if record.parent is not None:
        spec["parent"] = record.parent
    elif text_at(spec, "parent") not in ("", ROOT):
        del spec["parent"]
    quota, limit = limits_of(spec)
    if limit != record.limit_gpus:
        _set(spec, "capability", record.limit_gpus)
    if quota != record.quota_gpus:
        _set(spec, "deserved", record.quota_gpus)
    return spec


def _set(spec: Tree, share: str, gpus: int | None) -> None:
    """GPUs of a share as they are now; None takes them out."""
    amounts = {k: v for k, v in tree(spec, share).items() if k not in GPU_RESOURCES}
    if gpus is not None:
        amounts[GPUS] = str(gpus)
    spec[share] = amounts
    if not amounts:
        del spec[share]
    if gpus is None and share == "deserved" and "guarantee" in spec:
        resource = tree(tree(spec, "guarantee"), "resource")
        left = {k: v for k, v in resource.items() if k not in GPU_RESOURCES}
        spec["guarantee"] = {"resource": left}


def not_enforced(spec: Tree) -> list[str]:
    """What of a queue is taken and not acted on, in words."""
    told = []
    for share in ("capability", "deserved", "guarantee"):
        names = sorted(name for name in amounts_of(spec, share) if name not in GPU_RESOURCES)
        if names:
            told.append(f"spec.{share}: only GPUs are limited, not {', '.join(names)}")
    told += [
        f"spec.{field} is kept and not acted on"
        for field in ("affinity", "extendClusters", "type", "priority")
        if spec.get(field)
    ]
    if spec.get("reclaimable") is False:
        told.append("spec.reclaimable: what a queue borrows can always be taken back")
    return told
