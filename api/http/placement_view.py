"""How a placed job lies in the fabric, and what its talk costs there."""

from collections.abc import Mapping, Sequence

import numpy as np

from api.http.placement_laid import Laid
from api.http.placement_price import predicted, priced_spec
from api.http.service import Service
from api.http.shapes import RANK_ROLE, Shape, domains_of
from api.store.views import PodView
from scheduler.cost.constants import CONSTANTS
from scheduler.cost.hops import true_rows
from scheduler.cost.spans import least_possible
from scheduler.cost.step import AxisTime, Prediction
from scheduler.model.job import JOB_GROUP, JobSpec
from scheduler.model.resources import indices_of
from scheduler.parallel.groups import groups_of
from scheduler.topology.tree import Topology


def placement(service: Service, of: Laid) -> Shape:
    """The placement as the API shows it, with its regret."""
    found = predicted(of)
    return view(of, found, service.regrets.regret(of, found))


def view(of: Laid, found: Prediction | None, regret: float | None) -> Shape:
    """The same of values.

    Args:
        found: What it costs; None where that is not known.
    """
    return {
        "job": f"{of.spec.namespace}/{of.spec.name}",
        "attempt": of.attempt,
        "revision": of.revision,
        "search": of.search,
        "gap": of.gap,
        "regret": None if regret is None else round(regret, 4),
        "inter_node_s": None if found is None else found.inter_node_s,
        "exposed_s": None if found is None else found.total_s,
        "assumed": None if found is None else found.assumed,
        "cost_table": CONSTANTS.version if found is None else found.table_version,
        "node_type": of.node_type or None,
        "gpus_per_pod": of.gpus_per_pod or None,
        "pods": [_pod(pod, of.topology) for pod in of.pods],
        "groups": groups(of, found),
    }


def _pod(pod: PodView, topology: Topology) -> Shape:
    gpus = indices_of(pod.gpu_mask)
    return {
        "name": pod.name,
        "role": pod.role or RANK_ROLE,
        "index": pod.index,
        "node": pod.node,
        "gpus": gpus,
        "ranks": list(range(pod.first_rank, pod.first_rank + len(gpus))),
        "domains": domains_of(topology, pod.node),
    }


def groups(of: Laid, found: Prediction | None) -> dict[str, Shape]:
    """Spread and price of the groups of every axis above size 1, of each role, of the job.

    Empty while a pod is missing or on a node that the map no longer has.
    """
    if not of.pods or any(pod.node not in of.topology.node_index for pod in of.pods):
        return {}
    if of.spec.parallelism is not None:
        shapes = {} if found is None else _axes(of, found)
    else:
        shapes = {
            role.name: _whole([p for p in of.pods if p.role == role.name], of.topology)
            | ({} if found is None else _price_of(found.axes.get(role.name)))
            for role in of.spec.roles
            if any(p.role == role.name for p in of.pods)
        }
    return shapes | {JOB_GROUP: _job(of)}


def _axes(of: Laid, found: Prediction) -> dict[str, Shape]:
    spec = priced_spec(of)
    return {} if spec is None else {a: _axis(of, spec, a, t) for a, t in found.axes.items()}


def _axis(of: Laid, spec: JobSpec, axis: str, time: AxisTime) -> Shape:
    spans = {
        level: _span(span.max, span.mean, span.one, span.least_possible)
        for level, span in time.spans.items()
    }
    return _group(time.count, time.size, spans, true_groups(of, spec, axis)) | _price_of(time)


def _price_of(time: AxisTime | None) -> Shape:
    if time is None:
        return {}
    return {
        "bytes_per_step": time.bytes_per_step,
        "seconds": time.seconds,
        "exposed_s": time.exposed_s,
        "bottleneck": time.bottleneck,
    }


def true_groups(of: Laid, spec: JobSpec, axis: str) -> int:
    """Groups of an axis that use the same GPU indices on every node they touch."""
    if spec.parallelism is None:
        return 0
    ordered = sorted(of.pods, key=lambda pod: pod.first_rank)
    gpus = [indices_of(pod.gpu_mask) for pod in ordered]
    nodes = [of.topology.node_index[pod.node] for pod in ordered]
    node_of = np.repeat(np.array(nodes, dtype=np.int64), [len(of_pod) for of_pod in gpus])
    gpu_of = np.array([gpu for of_pod in gpus for gpu in of_pod], dtype=np.int64)
    members = groups_of(spec.parallelism)[axis]
    return int(true_rows(node_of[members], gpu_of[members]).sum())


def _job(of: Laid) -> Shape:
    """Shape of the whole job; of equal pods, with the fewest domains they could be in."""
    shape = _whole(of.pods, of.topology)
    counts = {pod.gpu_mask.bit_count() for pod in of.pods}
    if of.spec.parallelism is None or len(counts) != 1 or counts == {0}:
        return shape
    kind = of.topology.types[of.topology.node_index[of.pods[0].node]]
    spans = dict(shape["spans"])  # type: ignore[call-overload]  # made by _whole
    for depth, level in enumerate(of.topology.levels):
        least = least_possible(of.topology, kind, max(counts), depth, len(of.pods))
        spans[level.name] = spans[level.name] | {"least_possible": least}
    return shape | {"spans": spans}


def _whole(pods: Sequence[PodView], topology: Topology) -> Shape:
    """Shape of one group: all of these pods."""
    nodes = [topology.node_index[pod.node] for pod in pods]
    masks: dict[int, int] = {}
    for node, pod in zip(nodes, pods, strict=True):
        masks[node] = masks.get(node, 0) | pod.gpu_mask
    spans: dict[str, Shape] = {}
    for depth, level in enumerate(topology.levels):
        touched = len({topology.place[depth][node] for node in nodes})
        spans[level.name] = _span(touched, float(touched), int(touched == 1), None)
    ranks = sum(pod.gpu_mask.bit_count() for pod in pods)
    unpriced = dict.fromkeys(("bytes_per_step", "seconds", "exposed_s", "bottleneck"))
    return _group(1, ranks or len(pods), spans, int(len(set(masks.values())) == 1)) | unpriced


def _span(most: int, mean: float, one: int, least: int | None) -> Shape:
    return {"max": most, "mean": mean, "one": one, "least_possible": least}


def _group(count: int, size: int, spans: Mapping[str, Shape], true: int) -> Shape:
    return {
        "count": count,
        "size": size,
        "spans": dict(spans),
        "rail_true": true == count,
        "rail_true_groups": true,
    }
