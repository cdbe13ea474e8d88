"""Rank maps as launchers read them."""

from api.http.placement_view import Laid
from api.http.shapes import Shape
from api.schemas.reading import InvalidFields
from scheduler.errors import Problem
from scheduler.model.resources import indices_of

MASTER_PORT = 29_500
"""PyTorch's own default (`torch.distributed.run`)."""


def hostfile(of: Laid) -> str:
    """One line for each pod in rank order, as Open MPI and DeepSpeed read them."""
    ordered = sorted(of.pods, key=lambda pod: pod.first_rank)
    return "".join(f"{pod.node} slots={pod.gpu_mask.bit_count() or 1}\n" for pod in ordered)


def torchrun(of: Laid) -> Shape:
    """Nodes in rank order, and every process with its environment.

    Raises:
        InvalidFields: If the pods have unequal or no GPUs; torchrun starts as many processes on
            every node.
    """
    ordered = sorted(of.pods, key=lambda pod: pod.first_rank)
    sizes = sorted({pod.gpu_mask.bit_count() for pod in ordered})
    if len(sizes) != 1 or not sizes[0]:
        found = ", ".join(map(str, sizes))
        raise InvalidFields(
            Problem("format", f"torchrun needs pods of equally many GPUs; this job's have {found}")
        )
    local, world = sizes[0], sizes[0] * len(ordered)
    nodes, ranks = [], []
    for node_rank, pod in enumerate(ordered):
        gpus = indices_of(pod.gpu_mask)
        first = node_rank * local
        shared = {
            "WORLD_SIZE": str(world),
            "LOCAL_WORLD_SIZE": str(local),
            "GROUP_RANK": str(node_rank),
            "MASTER_ADDR": ordered[0].node,
            "MASTER_PORT": str(MASTER_PORT),
            "CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus)),
        }
        nodes.append(
            {
                "pod": pod.name,
                "node": pod.node,
                "node_rank": node_rank,
                "gpus": gpus,
                "ranks": list(range(first, first + local)),
            }
        )
        ranks += [
            {
                "rank": first + k,
                "node": pod.node,
                "gpu": gpu,
                "env": {"RANK": str(first + k), "LOCAL_RANK": str(k)} | shared,
            }
            for k, gpu in enumerate(gpus)
        ]
    return {
        "job": f"{of.spec.namespace}/{of.spec.name}",
        "nnodes": len(ordered),
        "nproc_per_node": local,
        "master_addr": ordered[0].node,
        "master_port": MASTER_PORT,
        "nodes": nodes,
        "ranks": ranks,
    }
