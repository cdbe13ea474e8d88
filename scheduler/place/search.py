"""Entry point: a gang and what is free in, a placement or a reason out."""

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import repeat

from scheduler.cluster.trial import Trial
from scheduler.cluster.view import Shape
from scheduler.model.job import (
    JOB_GROUP,
    JobSpec,
    Mode,
    ParallelSizes,
    Rule,
    default_gpus_per_pod,
)
from scheduler.model.lifecycle import Reason
from scheduler.model.node import NODE_LEVEL, NodeType
from scheduler.model.placement import NoFit, Placement, PodPlace
from scheduler.parallel.units import PodGrid, pod_grid
from scheduler.place.best import best_of
from scheduler.place.bounds import named_levels, rules_of_parallel
from scheduler.place.map_key import MapKey
from scheduler.place.members import Cut, node_types_for
from scheduler.place.price import StepPrice
from scheduler.place.roles import place_roles
from scheduler.place.uniform import Ask
from scheduler.topology.tree import Topology

GANGS_KEPT = 512
"""Gangs of which it is remembered what they ask for; then the table starts anew."""


def place(trial: Trial, spec: JobSpec) -> Placement | NoFit:
    """Where the gang goes now; the trial is left as it was.

    `NoFit.never` is always false here: whether waiting could help is another question, asked of the
    empty cluster (`admit.never_fits`).
    """
    if spec.parallelism is None:
        return _place_roles(trial, spec)
    verdict: NoFit | None = None
    for sizes in spec.all_sizes():
        found = _place_parallel(trial, spec, sizes)
        if isinstance(found, Placement):
            return found
        verdict = found
    return _no_such_node(spec) if verdict is None else verdict


def _place_roles(trial: Trial, spec: JobSpec) -> Placement | NoFit:
    if spec.rails_required:
        # A gang on one node talks over no rail.
        near = replace(spec, rails_required=False, rules=(*spec.rules, Rule(JOB_GROUP, NODE_LEVEL)))
        found = place_roles(trial, near)
        if not isinstance(found, NoFit) and _all_of(spec, found[0]):
            return _roles_placed(trial, *found)
    found = place_roles(trial, spec)
    if isinstance(found, NoFit):
        return found
    return _roles_placed(trial, *found)


def _all_of(spec: JobSpec, pods: list[PodPlace]) -> bool:
    return len(pods) == sum(role.replicas for role in spec.roles)


def _roles_placed(trial: Trial, pods: list[PodPlace], cut: Cut) -> Placement:
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
    if sizes is not spec.parallelism:
        spec = replace(spec, parallelism=sizes)
    kinds = [kind for kind in node_types_for(trial, spec.gpu, spec.gpus_per_pod or 1) if kind]
    for kind in kinds if spec.segment else ():
        count = sizes.world // (spec.gpus_per_pod or default_gpus_per_pod(sizes, kind.gpus))
        if spec.segment and count > spec.segment and count % spec.segment:
            return _uneven(spec.segment, count)
    asks = [ask_for_parallel(trial, spec, sizes, kind) for kind in kinds]
    found = best_of(trial, asks)
    if found is None:
        return _no_such_node(spec)
    if isinstance(found, NoFit):
        return found
    gpus = found.ask.view.shape.gpus
    resources = spec.resources_per_pod
    nodes, masks = found.layout.nodes, found.layout.masks
    # `map` makes a thousand of them in half the time that a loop takes.
    pods = tuple(
        map(
            PodPlace,
            repeat(""),
            range(len(nodes)),
            nodes,
            masks,
            range(0, gpus * len(nodes), gpus),
            repeat(resources),
            repeat(spec.exclusive),
        )
    )
    chosen = found.ask.node_type
    return Placement(
        pods,
        "" if chosen is None else chosen.name,
        gpus,
        search="exact" if found.proven else "bounded",
        gap=found.gap,
        predicted_s=found.seconds,
    )


def ask_for_parallel(trial: Trial, spec: JobSpec, sizes: ParallelSizes, node_type: NodeType) -> Ask:
    """The pods of a parallel job on one node type as the uniform search takes them."""
    asked = _asked(trial.table.topology, spec, sizes, node_type)
    return Ask(
        trial.view(asked.shape.for_gang_of(trial.table, asked.units.pods)),
        asked.units,
        asked.rules,
        node_type,
        asked.units.pods,
        price=asked.price,
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a gang asks for on one node type, whatever is free.

    Attributes:
        spec, node_type: Kept, so that their identities stay theirs.
    """

    spec: JobSpec
    node_type: NodeType
    shape: Shape
    units: PodGrid
    rules: tuple[Rule, ...]
    price: StepPrice


@lru_cache(maxsize=4)
def _asked_on(of: MapKey) -> dict[tuple[int, int], _Asked]:
    """What gangs ask for on a map, by the identities of gang and node type.

    Their contents would take longer to compare than to read.
    """
    return {}


def _asked(topology: Topology, spec: JobSpec, sizes: ParallelSizes, node_type: NodeType) -> _Asked:
    """A gang that waits is asked about again and again: what it asks for is put together once."""
    if sizes is not spec.parallelism or spec.dp_sizes:
        # One of several sizes that it may have: made for this question, and never seen again.
        return _put_together(topology, spec, sizes, node_type)
    known, key = _asked_on(MapKey(topology)), (id(spec), id(node_type))
    found = known.get(key)
    if found is None:
        found = _put_together(topology, spec, sizes, node_type)
        if len(known) >= GANGS_KEPT:
            known.clear()
        known[key] = found
    return found


def _put_together(
    topology: Topology, spec: JobSpec, sizes: ParallelSizes, node_type: NodeType
) -> _Asked:
    gpus = spec.gpus_per_pod or default_gpus_per_pod(sizes, node_type.gpus)
    units = pod_grid(sizes, gpus)
    rules = rules_of_parallel(spec)
    # A group inside one pod lies in one domain wherever its node is.
    binding = [
        rule
        for rule in rules
        if any(topology.blanks)
        and rule.mode is Mode.REQUIRED
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
        named=named_levels(topology, node_type, binding),
        dead_allowed=0 if spec.rails_required and units.pods > 1 else None,
        exclusive=spec.exclusive,
    )
    price = StepPrice(spec, topology, node_type, gpus)
    return _Asked(spec, node_type, shape, units, rules, price)


def _uneven(segment: int, pods: int) -> NoFit:
    """The verdict on a gang whose last segment would be smaller than the others."""
    allowed = ", ".join(str(n) for n in range(1, pods) if pods % n == 0)
    return NoFit(
        never=False,
        code=Reason.RULE,
        message=(
            f"its {pods} pods are no whole number of segments of {segment};"
            f" a segment may have {allowed} pods, or all"
        ),
        wanted=pods,
    )


def _no_such_node(spec: JobSpec) -> NoFit:
    wanted = f"{spec.gpus_per_pod} GPUs" if spec.gpus_per_pod else "GPUs"
    model = f" of model '{spec.gpu}'" if spec.gpu else ""
    return NoFit(
        never=False,
        code=Reason.ROOM,
        message=f"needs nodes with {wanted}{model}; no known node has them",
        wanted=1,
    )
