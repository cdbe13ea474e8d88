"""From the body of a what-if to what is supposed: every name looked up, every field checked."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from api.auth.seen import Names, sees_queue
from api.schemas.reading import InvalidFields
from api.schemas.whatif import NODES_MAX, AddedNodes, WhatIfBody, WhatIfChange
from scheduler.cluster.world import World
from scheduler.errors import InventoryError, Problem
from scheduler.explain.answer import Visible
from scheduler.explain.maps import with_nodes
from scheduler.explain.whatif import Supposed
from scheduler.importers.hostlist import HostlistError, expand
from scheduler.importers.node_type_data import BUILT_IN
from scheduler.model.ids import JobId, NodeId
from scheduler.model.job import JobSpec
from scheduler.model.node import NodeRecord, NodeType
from scheduler.model.plan import JobRecord
from scheduler.model.queue import QueueRecord
from scheduler.topology.tree import Topology

NAMES_MAX = 200_000
"""Names of nodes that all changes together may stand for."""

_DEFAULT = "default"
_NODES = ("drain", "cordon", "uncordon", "lose_node", "remove_nodes")
_SETS = ("lose_switch", "lose_set")

FIELDS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    **dict.fromkeys(_NODES, (("nodes",), ())),
    "lose_switch": ((), ("level", "domain", "set_kind", "set")),
    "lose_set": (("set_kind", "set"), ()),
    "add_nodes": (("add",), ()),
    "quota": (("queue",), ("quota_gpus", "limit_gpus")),
    "finish": (("job",), ()),
    "cancel": (("job",), ()),
    "priority": (("job", "priority"), ()),
}
"""Kind of change -> the fields it must have, and those it may have."""

FindType = Callable[[str], NodeType | None]


@dataclass(frozen=True, slots=True)
class Sees:
    """What may be named in a what-if; the rest is answered as if it were not there.

    Attributes:
        names: Namespaces of which queues may be named; None = all.
    """

    job: Visible
    names: Names = None


@dataclass(slots=True)
class _Draft:
    """What is supposed, as it grows change by change."""

    world: World
    sees: Sees
    find_type: FindType
    problems: list[Problem] = field(default_factory=list)
    aside: dict[NodeId, str | None] = field(default_factory=dict)
    emptied: set[NodeId] = field(default_factory=set)
    finished: list[JobId] = field(default_factory=list)
    cancelled: list[JobId] = field(default_factory=list)
    priorities: dict[JobId, int] = field(default_factory=dict)
    queues: dict[str, QueueRecord] = field(default_factory=dict)
    added: dict[str, NodeRecord] = field(default_factory=dict)
    types: dict[str, NodeType] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    names_used: int = 0
    by_name: dict[str, JobRecord] = field(default_factory=dict)

    def refuse(self, path: str, message: str) -> None:
        self.problems.append(Problem(path, message))


def supposed(
    world: World,
    body: WhatIfBody,
    specs: Sequence[JobSpec],
    sees: Sees,
    find_type: FindType,
) -> Supposed:
    """What the body supposes of this world.

    Args:
        specs: The jobs of the body, checked.
        find_type: Node types that the cluster has though no node is of them.

    Raises:
        InvalidFields: With a problem for every field that is wrong or names nothing there is.
    """
    draft = _Draft(world, sees, find_type)
    if any(change.job is not None for change in body.changes):
        draft.by_name = {_name(job): job for job in world.jobs.values() if sees.job(job)}
    for number, change in enumerate(body.changes):
        path = f"changes[{number}]"
        if _has_its_fields(draft, path, change):
            _take(draft, path, change)
    topology = None if draft.problems else _map_of(draft)
    if draft.problems:
        raise InvalidFields(draft.problems)
    return Supposed(
        jobs=tuple(specs),
        aside=draft.aside,
        emptied=frozenset(draft.emptied),
        finished=tuple(draft.finished),
        cancelled=tuple(draft.cancelled),
        priorities=draft.priorities,
        queues=tuple({**world.queues, **draft.queues}.values()) if draft.queues else None,
        topology=topology,
    )


def _name(job: JobRecord) -> str:
    return f"{job.spec.namespace}/{job.spec.name}"


def _has_its_fields(draft: _Draft, path: str, change: WhatIfChange) -> bool:
    needed, allowed = FIELDS[change.kind]
    before = len(draft.problems)
    given = change.model_dump(exclude_none=True).keys() - {"kind"}
    for name in needed:
        if name not in given:
            draft.refuse(f"{path}.{name}", f"is required by a change of kind {change.kind}")
    for name in sorted(given - {*needed, *allowed}):
        known = ", ".join((*needed, *allowed))
        draft.refuse(f"{path}.{name}", f"a change of kind {change.kind} has only {known}")
    return len(draft.problems) == before


def _take(draft: _Draft, path: str, change: WhatIfChange) -> None:
    if change.kind in _NODES:
        _take_nodes(draft, path, change)
    elif change.kind in _SETS:
        _lose(draft, _members(draft, path, change))
    elif change.kind == "add_nodes":
        for number, entry in enumerate(change.add or ()):
            _add(draft, f"{path}.add[{number}]", entry)
    elif change.kind == "quota":
        _take_quota(draft, path, change)
    else:
        _take_job(draft, path, change)


# -- nodes ----------------------------------------------------------------------------------------


def _take_nodes(draft: _Draft, path: str, change: WhatIfChange) -> None:
    names = list(_named(draft, f"{path}.nodes", change.nodes or ()))
    index = draft.world.topology.node_index
    for at, name in names:
        if name not in index:
            draft.refuse(at, f"node '{name}' does not exist")
            return
    nodes = [NodeId(name) for _, name in names]
    if change.kind == "uncordon":
        for node in nodes:
            aside = draft.aside.get(node, draft.world.table.aside[index[node]])
            if aside in {"cordoned", "draining"}:
                draft.aside[node] = None
    elif change.kind == "cordon":
        for node in nodes:
            if draft.world.table.aside[index[node]] is None:
                draft.aside[node] = "cordoned"
    elif change.kind == "drain":
        draft.emptied.update(nodes)
        draft.aside.update(dict.fromkeys(nodes, "draining"))
    elif change.kind == "remove_nodes":
        draft.emptied.update(nodes)
        draft.removed.update(nodes)
    else:
        _lose(draft, nodes)


def _lose(draft: _Draft, nodes: Iterable[str]) -> None:
    for name in nodes:
        draft.emptied.add(NodeId(name))
        draft.aside[NodeId(name)] = "lost"


def _named(draft: _Draft, path: str, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(path, name) of every node that hostlists stand for."""
    for number, text in enumerate(texts):
        at = f"{path}[{number}]"
        try:
            names = expand(text, limit=NAMES_MAX, used=draft.names_used)
        except HostlistError as error:
            for problem in error.problems:
                draft.refuse(at, problem.message)
            return
        draft.names_used += len(names)
        for name in names:
            yield at, name


def _members(draft: _Draft, path: str, change: WhatIfChange) -> Sequence[str]:
    """The nodes of a domain or of a named set."""
    topology = draft.world.topology
    if change.set_kind is not None or change.set is not None:
        return _set_members(draft, path, change)
    if change.level is None or change.domain is None:
        draft.refuse(path, "needs level and domain, or set_kind and set")
        return ()
    depth = topology.level_index.get(change.level)
    if depth is None:
        levels = ", ".join(topology.level_names)
        draft.refuse(f"{path}.level", f"found '{change.level}'; the levels are {levels}")
        return ()
    level = topology.levels[depth]
    if change.domain not in level.names:
        draft.refuse(f"{path}.domain", f"there is no {change.level} '{change.domain}'")
        return ()
    domain = level.names.index(change.domain)
    return [n.name for n in topology.nodes[level.node_lo[domain] : level.node_hi[domain]]]


def _set_members(draft: _Draft, path: str, change: WhatIfChange) -> Sequence[str]:
    sets = draft.world.topology.sets
    if change.set_kind is None or change.set is None or change.level or change.domain:
        draft.refuse(path, "needs level and domain, or set_kind and set")
        return ()
    if change.set_kind not in sets:
        known = ", ".join(sorted(sets)) or "none"
        draft.refuse(f"{path}.set_kind", f"found '{change.set_kind}'; kinds of sets are: {known}")
        return ()
    members = sets[change.set_kind].get(change.set)
    if members is None:
        draft.refuse(f"{path}.set", f"there is no {change.set_kind} '{change.set}'")
        return ()
    return [name for name in members if name in draft.world.topology.node_index]


def _add(draft: _Draft, path: str, entry: AddedNodes) -> None:
    topology = draft.world.topology
    levels = topology.level_names[:-1]
    for level in entry.places:
        if level not in levels:
            known = ", ".join(levels) or "none"
            draft.refuse(f"{path}.places.{level}", f"there is no such level; there are: {known}")
            return
    kind = _type_of(draft, entry.type)
    if kind is None:
        known = ", ".join(sorted({*BUILT_IN, *(kind.name for kind in topology.kinds)}))
        draft.refuse(f"{path}.type", f"there is no node type '{entry.type}'; there are: {known}")
        return
    draft.types[kind.name] = kind
    for _, name in _named(draft, f"{path}.names", (entry.names,)):
        if name in topology.node_index or name in draft.added:
            draft.refuse(f"{path}.names", f"node '{name}' is there already")
            return
        draft.added[name] = NodeRecord(name, entry.type, dict(entry.places), dict(entry.labels))
        if len(draft.added) > NODES_MAX:
            draft.refuse(f"{path}.names", f"more than {NODES_MAX} nodes in all; that is too many")
            return


def _type_of(draft: _Draft, name: str) -> NodeType | None:
    known = next((kind for kind in draft.world.topology.kinds if kind.name == name), None)
    return known or draft.find_type(name) or BUILT_IN.get(name)


def _map_of(draft: _Draft) -> Topology | None:
    if not draft.added and not draft.removed:
        return None
    try:
        return with_nodes(
            draft.world.topology, draft.added.values(), draft.types, frozenset(draft.removed)
        ).topology
    except InventoryError as error:
        for problem in error.problems:
            draft.refuse("changes", problem.message)
        return None


# -- queues and jobs ------------------------------------------------------------------------------


def _take_quota(draft: _Draft, path: str, change: WhatIfChange) -> None:
    name = change.queue or ""
    record = draft.queues.get(name) or draft.world.queues.get(name)
    if record is None or not sees_queue(draft.sees.names, name, draft.world.queues):
        draft.refuse(f"{path}.queue", f"queue '{name}' does not exist")
        return
    if change.quota_gpus is None and change.limit_gpus is None:
        draft.refuse(path, "needs quota_gpus, limit_gpus or both")
        return
    if change.quota_gpus is not None:
        record = replace(record, quota_gpus=change.quota_gpus)
    if change.limit_gpus is not None:
        record = replace(record, limit_gpus=change.limit_gpus)
    quota, limit = record.quota_gpus, record.limit_gpus
    if quota is not None and limit is not None and quota > limit:
        at = "quota_gpus" if change.quota_gpus is not None else "limit_gpus"
        draft.refuse(
            f"{path}.{at}", f"a quota of {quota} GPUs is above the queue's limit of {limit}"
        )
        return
    draft.queues[name] = record


def _take_job(draft: _Draft, path: str, change: WhatIfChange) -> None:
    text = change.job or ""
    name = text if "/" in text else f"{_DEFAULT}/{text}"
    job = draft.by_name.get(name)
    if job is None:
        draft.refuse(f"{path}.job", f"job '{name}' does not exist or has ended")
    elif change.kind == "cancel":
        draft.cancelled.append(job.uid)
    elif change.kind == "priority":
        draft.priorities[job.uid] = change.priority or 0
    elif draft.world.live_pods(job.uid):
        draft.finished.append(job.uid)
    else:
        draft.refuse(
            f"{path}.job", f"job '{name}' is {job.state} and cannot finish; it may be cancelled"
        )
