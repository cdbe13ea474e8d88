"""Entry point: a gang and what is free in, a placement or a reason out."""

from dataclasses import replace

from scheduler.cluster.trial import Trial
from scheduler.cluster.view import Shape
from scheduler.model.job import (
    JOB_GROUP,
    JobSpec,
    Mode,
    ParallelSizes,
    default_gpus_per_pod,
)
from scheduler.model.lifecycle import Reason
from scheduler.model.node import NodeType
from scheduler.model.placement import NoFit, Placement, PodPlace
from scheduler.parallel.units import PodGrid
from scheduler.place.best import best_of
from scheduler.place.bounds import named_levels, rules_of_parallel
from scheduler.place.members import node_types_for
from scheduler.place.roles import place_roles
from scheduler.place.uniform import Ask, place_settled


def place(trial: Trial, spec: JobSpec) -> Placement | NoFit:
    """Where the gang goes now; the trial is left as it was.

    `NoFit.never` is always false here: whether waiting could help is another question, asked of the
    empty cluster (`admit.never_fits`).
    """
    if spec.parallelism is not None:
        return _place_parallel(trial, spec, spec.parallelism)
    found = place_roles(trial, spec)
    if isinstance(found, NoFit):
        return found
    pods, cut = found
    types = {trial.table.topology.types[p.node_index].name for p in pods if p.gpu_mask}
    return Placement(
        pods=_with_ranks(pods),
        node_type=types.pop() if len(types) == 1 else "",
        search="bounded" if cut.bounded else "exact",
    )


def _with_ranks(pods: list[PodPlace]) -> tuple[PodPlace, ...]:
    """Ranks of roles count through all GPUs in the order of the pods."""
    out, rank = [], 0
    for pod in pods:
        out.append(replace(pod, first_rank=rank))
        rank += pod.gpu_mask.bit_count()
    return tuple(out)


def _place_parallel(trial: Trial, spec: JobSpec, sizes: ParallelSizes) -> Placement | NoFit:
    found = best_of(
        ask_for_parallel(trial, spec, sizes, node_type)
        for node_type in node_types_for(trial, spec.gpu, spec.gpus_per_pod or 1)
        if node_type is not None
    )
    if found is None:
        return _no_such_node(spec)
    if isinstance(found, NoFit):
        return found
    ask, settled = found
    gpus = ask.view.shape.gpus
    resources = spec.resources_per_pod
    pods = tuple(
        PodPlace("", index, node, mask, index * gpus, resources)
        for index, (node, mask) in place_settled(ask, settled)
    )
    kind = ask.node_type
    return Placement(pods, "" if kind is None else kind.name, gpus)


def ask_for_parallel(trial: Trial, spec: JobSpec, sizes: ParallelSizes, node_type: NodeType) -> Ask:
    """The pods of a parallel job on one node type as the uniform search takes them."""
    gpus = spec.gpus_per_pod or default_gpus_per_pod(sizes, node_type.gpus)
    units = PodGrid(sizes, gpus)
    rules = rules_of_parallel(spec)
    # A group inside one pod lies in one domain wherever its node is.
    binding = [
        rule
        for rule in rules
        if rule.mode is Mode.REQUIRED
        and (rule.group == JOB_GROUP or units.unit(frozenset({rule.group})) > 1)
    ]
    shape = Shape(
        node_type=node_type.name,
        gpus=gpus,
        resources=spec.resources_per_pod,
        single=True,
        labels=tuple(sorted(spec.labels.items())),
        tolerations=spec.tolerations,
        nodes=frozenset(spec.nodes),
        named=named_levels(trial.table.topology, node_type, binding),
    )
    return Ask(trial.view(shape), units, rules, node_type, units.pods)


def _no_such_node(spec: JobSpec) -> NoFit:
    wanted = f"{spec.gpus_per_pod} GPUs" if spec.gpus_per_pod else "GPUs"
    model = f" of model '{spec.gpu}'" if spec.gpu else ""
    return NoFit(
        never=False,
        code=Reason.ROOM,
        message=f"needs nodes with {wanted}{model}; no known node has them",
        wanted=1,
    )
