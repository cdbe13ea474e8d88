"""Facts for NCCL: the rail of each GPU, which groups cross what, and the settings that follow."""

from api.http.placement_laid import Laid
from api.http.placement_pods import in_order, title
from api.http.placement_price import predicted, priced_spec
from api.http.placement_view import true_groups
from api.http.shapes import Shape
from api.store.views import PodView
from scheduler.cost.step import AxisTime
from scheduler.model.job import JobSpec
from scheduler.model.node import NodeType
from scheduler.model.resources import indices_of

HCA_LABEL = "podyard.io/ib-hca"
"""Label of a node: its NICs in the order of their rails, joined by dots: `mlx5_0.mlx5_3`."""


def nccl(of: Laid) -> Shape:
    """Rails by GPU, dead ones, adapters where a label names them, and what groups cross.

    `NCCL_CROSS_NIC` is 0 where every group is rail-true on a fabric of rails, so that rings keep
    to one switch a hop; else 2, NCCL's own default. Works for jobs of roles too, without groups.
    """
    spec, found = priced_spec(of), predicted(of)
    groups = {}
    if spec is not None and found is not None:
        groups = {axis: _group(of, spec, axis, time) for axis, time in found.axes.items()}
    pods = [_pod(of, pod) for pod in in_order(of)]
    on_rails = any(pod["rails"] for pod in pods)
    rail_true = bool(groups) and all(group["rail_true"] for group in groups.values())
    env = {
        "NCCL_CROSS_NIC": "0" if rail_true and on_rails else "2",
        "NCCL_PXN_DISABLE": "0",
    }
    orders = {pod["ib_hca"] for pod in pods}
    if len(orders) == 1 and None not in orders:
        env["NCCL_IB_HCA"] = str(pods[0]["ib_hca"])
    kind = _kind(of, of.pods[0]) if of.pods else None
    return {
        "job": title(of),
        "node_type": of.node_type or None,
        "scale_up": None if kind is None else of.topology.scale_up_level(kind),
        "rails": 0 if kind is None else kind.rails,
        "env": env,
        "pods": pods,
        "groups": groups,
    }


def _kind(of: Laid, pod: PodView) -> NodeType | None:
    index = of.topology.node_index.get(pod.node)
    return None if index is None else of.topology.types[index]


def _pod(of: Laid, pod: PodView) -> Shape:
    kind, gpus = _kind(of, pod), indices_of(pod.gpu_mask)
    rails: list[int] = []
    dead: list[int] = []
    if kind is not None and kind.rails:
        table = kind.rail_of_gpu or tuple(range(kind.gpus))
        rails = [table[gpu] for gpu in gpus]
        lost = of.dead_rails.get(of.topology.node_index[pod.node], 0)
        dead = [rail for rail in indices_of(lost) if rail in rails]
    return {
        "pod": pod.name,
        "node": pod.node,
        "gpus": gpus,
        "rails": rails,
        "dead_rails": dead,
        "ib_hca": None if kind is None else _adapters(of, pod.node, kind),
    }


def _adapters(of: Laid, node: str, kind: NodeType) -> str | None:
    """NICs in the order of their rails as `NCCL_IB_HCA` takes them; None where not known."""
    label = of.topology.nodes[of.topology.node_index[node]].labels.get(HCA_LABEL)
    if not label:
        return None
    names = label.split(".")
    return "=" + ",".join(names) if len(names) == (kind.rails or len(names)) else None


def _group(of: Laid, spec: JobSpec, axis: str, time: AxisTime) -> Shape:
    true = true_groups(of, spec, axis)
    return {
        "count": time.count,
        "size": time.size,
        "crosses": {level: time.count - span.one for level, span in time.spans.items()},
        "rail_true": true == time.count,
        "bottleneck": time.bottleneck,
        "bytes_per_step": time.bytes_per_step,
    }
