"""One role's equal members: what they ask of a node, and their place on the best node type."""

from dataclasses import dataclass

from scheduler.cluster.trial import Trial
from scheduler.cluster.view import Shape
from scheduler.model.job import JOB_GROUP, JobSpec, Mode, Role
from scheduler.model.lifecycle import Reason
from scheduler.model.node import NodeType
from scheduler.model.placement import NoFit, PodPlace
from scheduler.parallel.units import Members
from scheduler.place.best import best_of
from scheduler.place.bounds import named_levels, rules_of_role
from scheduler.place.room import Scope
from scheduler.place.uniform import Ask
from scheduler.topology.tree import Topology


@dataclass(slots=True)
class Cut:
    """Whether some search was stopped before every choice was seen."""

    bounded: bool = False


def shape_of(topology: Topology, spec: JobSpec, role: Role, node_type: NodeType | None) -> Shape:
    """What one member of a role asks of its node."""
    rules = (
        *(rule for rule in spec.rules if rule.group in (JOB_GROUP, role.name)),
        *role.rules,
        *(role.parts.rules if role.parts is not None else ()),
    )
    return Shape(
        node_type=None if node_type is None else node_type.name,
        gpus=role.gpus,
        resources=role.resources,
        single=role.one_per_node,
        labels=tuple(sorted(spec.labels.items())),
        tolerations=spec.tolerations,
        nodes=frozenset(spec.nodes),
        named=named_levels(topology, node_type, [r for r in rules if r.mode is Mode.REQUIRED]),
        dead_allowed=0 if spec.rails_required and role.gpus else None,
        exclusive=spec.exclusive,
    )


def node_types_for(trial: Trial, gpu: str | None, gpus: int) -> list[NodeType | None]:
    """Types that could hold pods of so many GPUs, by name; [None] for pods without GPUs."""
    if not gpus:
        return [None]
    return [
        kind for kind in trial.table.topology.kinds if kind.gpus >= gpus and gpu in (None, kind.gpu)
    ]


def place_role(
    trial: Trial,
    spec: JobSpec,
    role: Role,
    least: int,
    scope: Scope | None,
    cut: Cut,
    *,
    alone: bool,
    wanted: int | None = None,
) -> list[PodPlace] | NoFit:
    """Place members 0 .. of one role on the best node type and hold their places."""
    pods = role.replicas if wanted is None else wanted
    asks = [
        ask_for_role(trial, spec, role, node_type, pods, least, scope, alone=alone)
        for node_type in node_types_for(trial, spec.gpu, role.gpus)
    ]
    found = best_of(trial, asks)
    if found is None:
        return no_such_node(spec, role)
    if isinstance(found, NoFit):
        return found
    cut.bounded = cut.bounded or not found.proven
    spots = zip(found.layout.nodes, found.layout.masks, strict=True)
    out = [
        PodPlace(role.name, index, node, mask, 0, role.resources, spec.exclusive)
        for index, (node, mask) in enumerate(spots)
    ]
    trial.hold_places(out)
    if spec.exclusive:
        trial.table.set_own({*trial.table.own, *(place.node_index for place in out)})
    return out


def ask_for_role(
    trial: Trial,
    spec: JobSpec,
    role: Role,
    node_type: NodeType | None,
    pods: int,
    least: int,
    scope: Scope | None,
    *,
    alone: bool,
) -> Ask:
    """Equal members of one role as the uniform search takes them."""
    shape = shape_of(trial.table.topology, spec, role, node_type)
    return Ask(
        view=trial.view(shape.for_gang_of(trial.table, role.replicas)),
        units=Members(role, pods),
        rules=rules_of_role(spec, role, alone=alone),
        node_type=node_type,
        least=least,
        step=role.parts.size if role.parts is not None else 1,
        scope=scope,
    )


def no_such_node(spec: JobSpec, role: Role) -> NoFit:
    """The verdict when no node, however empty, is of a model and size that the role could use."""
    model = f" of model '{spec.gpu}'" if spec.gpu else ""
    return NoFit(
        never=False,
        code=Reason.ROOM,
        message=(
            f"role '{role.name}' needs {role.gpus} GPUs{model} on one node; no known node has them"
        ),
        wanted=role.min,
    )
