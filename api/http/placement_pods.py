"""What the launchers' formats share: pods in rank order, and what starts each."""

from api.http.placement_laid import Laid
from api.http.shapes import Shape
from api.schemas.reading import InvalidFields
from api.store.views import PodView
from scheduler.errors import Problem
from scheduler.model.resources import indices_of

MASTER_PORT = 29_500
"""PyTorch's own default (`torch.distributed.run`)."""


def title(of: Laid) -> str:
    return f"{of.spec.namespace}/{of.spec.name}"


def in_order(of: Laid) -> list[PodView]:
    """Pods by rank; those without GPUs keep their place among the others."""
    return sorted(of.pods, key=lambda pod: pod.first_rank)


def slots(pod: PodView) -> int:
    """Processes of a pod: one for each GPU, or one."""
    return pod.gpu_mask.bit_count() or 1


def visible_devices(pod: PodView) -> str:
    return ",".join(map(str, indices_of(pod.gpu_mask)))


def launch_nodes(of: Laid, format: str) -> list[Shape]:
    """For each pod what `torchrun` takes there, as variables it reads itself (`PET_...`).

    Raises:
        InvalidFields: If the pods have unequal or no GPUs.
    """
    ordered = in_order(of)
    sizes = sorted({pod.gpu_mask.bit_count() for pod in ordered})
    if len(sizes) != 1 or not sizes[0]:
        found = ", ".join(map(str, sizes))
        raise InvalidFields(
            Problem("format", f"{format} needs pods of equally many GPUs; this job's have {found}")
        )
    local = sizes[0]
    return [
        {
            "pod": pod.name,
            "node": pod.node,
            "node_rank": node_rank,
            "gpus": indices_of(pod.gpu_mask),
            "ranks": list(range(node_rank * local, (node_rank + 1) * local)),
            "env": {
                "PET_NNODES": str(len(ordered)),
                "PET_NPROC_PER_NODE": str(local),
                "PET_NODE_RANK": str(node_rank),
                "PET_MASTER_ADDR": ordered[0].node,
                "PET_MASTER_PORT": str(MASTER_PORT),
                "CUDA_VISIBLE_DEVICES": visible_devices(pod),
            },
        }
        for node_rank, pod in enumerate(ordered)
    ]
