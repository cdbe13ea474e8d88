"""A rank map for Slurm: which nodes, and which task on which."""

from itertools import accumulate

from api.http.placement_laid import Laid
from api.http.placement_pods import in_order, slots, title, visible_devices
from api.http.shapes import Shape
from scheduler.importers.hostlist import compress


def slurm(of: Laid) -> Shape:
    """The hostlist, and the file that `SLURM_HOSTFILE` names: a line with its node for each task.

    Slurm orders a hostlist by name; only `--distribution=arbitrary` and the file keep ranks where
    they were placed (man srun, "SLURM_HOSTFILE").
    """
    ordered = in_order(of)
    each = [slots(pod) for pod in ordered]
    firsts = accumulate(each[:-1], initial=0)
    nodes = {pod.node for pod in ordered}
    tasks = sum(each)
    nodelist = compress(nodes)
    return {
        "job": title(of),
        "nodelist": nodelist,
        "nodes": len(nodes),
        "ntasks": tasks,
        "ntasks_per_node": (
            each[0] if len(set(each)) == 1 and len(nodes) == len(ordered) else None
        ),
        "hostfile": "".join(f"{pod.node}\n" * slots(pod) for pod in ordered),
        "args": [
            f"--nodelist={nodelist}",
            f"--nodes={len(nodes)}",
            f"--ntasks={tasks}",
            "--distribution=arbitrary",
        ],
        "pods": [
            {
                "pod": pod.name,
                "node": pod.node,
                "first_task": first,
                "tasks": slots(pod),
                "cuda_visible_devices": visible_devices(pod),
            }
            for pod, first in zip(ordered, firsts, strict=True)
        ],
    }
