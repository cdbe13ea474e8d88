"""Rank maps as launchers read them: which formats there are, and those of MPI and PyTorch."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from api.http.placement_laid import Laid
from api.http.placement_megatron import megatron
from api.http.placement_nccl import nccl
from api.http.placement_pods import MASTER_PORT, in_order, launch_nodes, slots, title
from api.http.placement_slurm import slurm
from api.http.shapes import Shape
from api.schemas.reading import InvalidFields
from scheduler.errors import Problem
from scheduler.model.resources import indices_of


def hostfile(of: Laid) -> str:
    """One line for each pod in rank order, as Open MPI and DeepSpeed read them."""
    return "".join(f"{pod.node} slots={slots(pod)}\n" for pod in in_order(of))


def rankfile(of: Laid) -> str:
    """One line for each rank, as Open MPI's `--map-by rankfile:file=` (or `-rf`) reads them.

    A slot is a core of the node: each GPU of n has the n-th part of them, which are next to it
    where GPUs and cores are numbered alike. Where the cores are not known it is the one core with
    the GPU's number.

    Raises:
        InvalidFields: If a pod has no GPU.
    """
    lines = []
    for pod in in_order(of):
        if not pod.gpu_mask:
            raise InvalidFields(
                Problem("format", f"rankfile binds ranks beside their GPU; '{pod.name}' has none")
            )
        gpus = indices_of(pod.gpu_mask)
        cores = _cores_per_gpu(of, pod.node)
        lines += [
            f"rank {pod.first_rank + k}={pod.node} slot={_cores(gpu, cores)}\n"
            for k, gpu in enumerate(gpus)
        ]
    return "".join(lines)


def _cores_per_gpu(of: Laid, node: str) -> int:
    index = of.topology.node_index.get(node)
    if index is None:
        return 1
    kind = of.topology.types[index]
    return max(1, kind.capacity.cpu_milli // 1_000 // max(1, kind.gpus))


def _cores(gpu: int, each: int) -> str:
    first = gpu * each
    return str(first) if each == 1 else f"{first}-{first + each - 1}"


def torchrun(of: Laid) -> Shape:
    """Nodes in rank order with what `torchrun` reads there, and every process's environment.

    Raises:
        InvalidFields: If the pods have unequal or no GPUs; torchrun starts as many processes on
            every node.
    """
    nodes = launch_nodes(of, "torchrun")
    ordered = in_order(of)
    local = ordered[0].gpu_mask.bit_count()
    ranks = [
        {
            "rank": node_rank * local + k,
            "node": pod.node,
            "gpu": gpu,
            "env": {
                "RANK": str(node_rank * local + k),
                "LOCAL_RANK": str(k),
                "WORLD_SIZE": str(local * len(ordered)),
                "LOCAL_WORLD_SIZE": str(local),
                "GROUP_RANK": str(node_rank),
                "MASTER_ADDR": ordered[0].node,
                "MASTER_PORT": str(MASTER_PORT),
                "CUDA_VISIBLE_DEVICES": ",".join(map(str, indices_of(pod.gpu_mask))),
            },
        }
        for node_rank, pod in enumerate(ordered)
        for k, gpu in enumerate(indices_of(pod.gpu_mask))
    ]
    return {
        "job": title(of),
        "nnodes": len(ordered),
        "nproc_per_node": local,
        "master_addr": ordered[0].node,
        "master_port": MASTER_PORT,
        "nodes": nodes,
        "ranks": ranks,
    }


FORMATS: Mapping[str, Callable[[Laid], Shape | str]] = MappingProxyType(
    {
        "torchrun": torchrun,
        "hostfile": hostfile,
        "rankfile": rankfile,
        "slurm": slurm,
        "megatron": megatron,
        "nccl": nccl,
    }
)
"""Formats beside `json`; those of one text are `str`."""

TEXTS: Sequence[str] = ("hostfile", "rankfile")
"""Formats that are plain text."""
