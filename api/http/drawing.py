"""The map for drawing: what is where, compactly, and what of it changed since a revision."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from api.auth.seen import Names
from api.http.glance import name_of
from api.http.shapes import Shape
from scheduler.cluster.world import World
from scheduler.model.ids import JobId
from scheduler.model.node import NodeType
from scheduler.model.plan import JobRecord, PodRecord
from scheduler.topology.tree import Topology

ENDED = 0
"""Stands for the job of a pod that outlives its job; other jobs have the revision they came at."""

UNNAMED = 0
"""Stands for a job that is not its reader's to know, in the same way."""

Use = tuple[str | int, ...]
"""Why the node takes no new pods, or ""; then of each pod: job, GPU mask in hex, first rank."""

_IDLE: Use = ("",)


@dataclass(slots=True)
class Drawing:
    """The map as of a revision, and when each part of it last changed.

    Attributes:
        revision: Up to which changes are in.
        changed: Revision of the last change that is to be seen.
        base: Changes up to here are not told apart.
        uses: Of each node.
        jobs: By number: everything of a job that is told.
        kept: Claims and dead rails, short lists that are told whole.
        use_changed, job_changed: The revision after which each was found changed.
    """

    topology: Topology
    revision: int
    changed: int
    base: int
    uses: list[Use]
    jobs: dict[int, Shape]
    kept: tuple[list[Shape], list[Shape]]
    use_changed: dict[int, int] = field(default_factory=dict)
    job_changed: dict[int, int] = field(default_factory=dict)


def draw(world: World, before: Drawing | None) -> Drawing:
    """The drawing of the world as it is.

    Args:
        before: The one made last; what differs from it is marked as changed.
    """
    made = Drawing(
        topology=world.topology,
        revision=world.revision,
        changed=world.revision,
        base=world.revision,
        uses=_uses(world),
        jobs=_jobs(world),
        kept=(_claims(world), _dead_rails(world)),
    )
    if before is None or before.topology is not world.topology:
        return made
    made.base = before.base
    made.use_changed = before.use_changed | {
        node: world.revision
        for node, (now, old) in enumerate(zip(made.uses, before.uses, strict=True))
        if now != old
    }
    made.job_changed = {n: r for n, r in before.job_changed.items() if n in made.jobs} | {
        number: world.revision
        for number, job in made.jobs.items()
        if before.jobs.get(number) != job
    }
    marks = (*made.use_changed.values(), *made.job_changed.values())
    made.changed = max(marks, default=before.changed)
    if made.kept != before.kept or made.jobs.keys() != before.jobs.keys():
        made.changed = world.revision
    return made


def drawn(drawing: Drawing, since: int | None, names: Names = None) -> Shape:
    """The whole map, or what changed after a revision from which on changes are told apart.

    Args:
        names: Namespaces whose jobs are named; of others' what they hold. None = all.
    """
    hidden = _hidden(drawing, names)
    whole = since is None or since < drawing.base
    return {
        "cluster": drawing.topology.cluster,
        "revision": drawing.revision,
        "since": None if whole else since,
        **_place(drawing.topology, whole=whole),
        "use": [_masked(use, hidden) for use in _use(drawing, None if whole else since)],
        "jobs": [
            {"id": number, **job}
            for number, job in drawing.jobs.items()
            if (whole or drawing.job_changed.get(number, 0) > (since or 0)) and number not in hidden
        ],
        "claims": [
            claim | {"job": UNNAMED} if claim["job"] in hidden else claim
            for claim in drawing.kept[0]
        ],
        "dead_rails": drawing.kept[1],
    }


def _hidden(drawing: Drawing, names: Names) -> frozenset[object]:
    """Numbers of the jobs that are not named."""
    if names is None:
        return frozenset()
    jobs = drawing.jobs.items()
    return frozenset(n for n, job in jobs if str(job["job"]).partition("/")[0] not in names)


def _masked(use: list[str | int], hidden: frozenset[object]) -> list[str | int]:
    """The use of a node without whose the GPUs are that others hold."""
    if not hidden:
        return use
    shown = list(use)
    for at in range(2, len(use), 3):
        if use[at] in hidden:
            shown[at], shown[at + 2] = UNNAMED, 0
    return shown


def _place(topology: Topology, *, whole: bool) -> Shape:
    """The tree; empty lists where only changes are told."""
    kinds = {kind.name: position for position, kind in enumerate(topology.kinds)}
    return {
        "levels": [
            {"name": level.name, "names": list(level.names), "ends": list(level.node_hi)}
            for level in topology.levels[:-1]
            if whole
        ],
        "scale_up": topology.scale_up,
        "types": [_kind(kind) for kind in topology.kinds] if whole else [],
        "nodes": [node.name for node in topology.nodes] if whole else [],
        "node_types": [kinds[kind.name] for kind in topology.types] if whole else [],
    }


def _kind(kind: NodeType) -> Shape:
    return {
        "name": kind.name,
        "gpu": kind.gpu or None,
        "gpus": kind.gpus,
        "power_kw": kind.power_w / 1_000 if kind.power_w else None,
    }


def _use(drawing: Drawing, since: int | None) -> list[list[str | int]]:
    """Of each node that is not idle, or of each that changed: its position and its use."""
    if since is None:
        return [[node, *use] for node, use in enumerate(drawing.uses) if use != _IDLE]
    changed = sorted(node for node, at in drawing.use_changed.items() if at > since)
    return [[node, *drawing.uses[node]] for node in changed]


def _uses(world: World) -> list[Use]:
    uses: list[Use] = [(reason,) if reason else _IDLE for reason in world.table.aside]
    index = world.topology.node_index
    for name, pods in world.on_node.items():
        node = index.get(name)
        if node is not None and pods:
            uses[node] = _with_pods(world, uses[node], list(pods.values()))
    return uses


def _with_pods(world: World, use: Use, pods: Sequence[PodRecord]) -> Use:
    flat = list(use)
    for pod in sorted(pods, key=lambda p: (p.gpu_mask, p.uid)) if len(pods) > 1 else pods:
        flat += (_number(world, pod.job), f"{pod.gpu_mask:x}", pod.first_rank)
    return tuple(flat)


def _number(world: World, uid: JobId | None) -> int:
    job = None if uid is None else world.jobs.get(uid)
    return ENDED if job is None else job.age


def _jobs(world: World) -> dict[int, Shape]:
    """Jobs that hold GPUs or have some kept, by number."""
    claimed = {claim.job for claim in world.claims.values() if claim.job is not None}
    uids = world.holding | (claimed & world.jobs.keys())
    jobs = sorted((world.jobs[uid] for uid in uids if uid in world.jobs), key=lambda j: j.age)
    return {job.age: _job(job) for job in jobs}


def _job(job: JobRecord) -> Shape:
    return {
        "job": name_of(job),
        "state": job.state,
        "queue": job.spec.queue,
        "priority": job.spec.priority,
        "gpus": job.spec.gpu_count,
    }


def _claims(world: World) -> list[Shape]:
    index = world.topology.node_index
    found = sorted(world.claims.values(), key=lambda claim: claim.uid)
    return [
        {
            "node": index[claim.node],
            "gpus": f"{claim.gpu_mask:x}",
            "job": _number(world, claim.job),
            "why": claim.why,
        }
        for claim in found
        if claim.node in index
    ]


def _dead_rails(world: World) -> list[Shape]:
    found = world.table.dead_rails
    return [{"node": node, "rails": f"{mask:x}"} for node, mask in sorted(found.items()) if mask]
