"""Answers to a kube-scheduler that asks before it chooses: `filter` and `prioritize`.

It asks for one pod at a time and shows no other pods. So the gang of the first pod that comes is
placed as a whole on the nodes it shows, and the pods after it take the places that are left; nodes
count as empty but for what the gang itself takes, as kube-scheduler shows only those with room.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import cast

from api.k8s.extender.cluster import Topologies, trial_of
from api.k8s.extender.reading import (
    MalformedRequest,
    Tree,
    list_at,
    pick,
    required,
    text_at,
    tree_at,
)
from api.k8s.extender.session import rules_of, with_where
from api.k8s.volcano.gang import GPU_RESOURCES, UNCOUNTED
from api.k8s.volcano.kinds_job import POD_SPEC
from api.k8s.volcano.pod_rules import requests_of
from api.k8s.volcano.shape import filled, shape_problems
from scheduler.errors import Problem
from scheduler.model.job import JobSpec, Role
from scheduler.model.placement import Placement
from scheduler.model.resources import Resources
from scheduler.place.search import place
from scheduler.topology.tree import Topology

GROUP_NAMES = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
GROUP_LABELS = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io/name")
SIZES = (
    "scheduling.volcano.sh/group-min-member",
    "pod-group.scheduling.sigs.k8s.io/min-available",
    "podyard.io/gang-size",
)
MODE, TIER = "volcano.sh/network-topology-mode", "volcano.sh/network-topology-highest-tier"

GANGS_KEPT = 1_000
"""Gangs of which the plan is remembered; the one asked about longest ago goes first."""

PLACES_KEPT = 200_000
"""Places of all these gangs together, taken or free: the pods of a large cluster."""

MEMBERS_MAX = 100_000
SCORE_MAX = 10
MIB = 1024**2


@dataclass(slots=True)
class _Gang:
    """What is planned for one gang.

    Attributes:
        free: Nodes of members that no pod has taken yet, in order.
        taken: Pod uid -> node.
    """

    free: list[str] = field(default_factory=list)
    taken: dict[str, str] = field(default_factory=dict)


class KubeExtender:
    """Questions of kube-schedulers.

    Args:
        own: Reads the topology of the service's own inventory.
    """

    def __init__(self, own: Callable[[], Topology]) -> None:
        self._topologies = Topologies(own)
        self._lock = threading.Lock()
        self._gangs: OrderedDict[tuple[str, str], _Gang] = OrderedDict()

    def filter(self, body: Tree) -> dict[str, object]:
        """The one node that the pod's place in its gang is on, and why not the others."""
        asked = _read(body)
        with self._lock:
            chosen, why = self._choose(asked)
        said = why or f"the place of this pod in its gang is on node '{chosen}'"
        failed = {name: said for name in asked.names if name != chosen}
        answer: dict[str, object] = {"FailedNodes": failed, "FailedAndUnresolvableNodes": {}}
        kept = [name for name in asked.names if name == chosen]
        if asked.nodes is None:
            return answer | {"Nodes": None, "NodeNames": kept, "Error": ""}
        items = [node for node in asked.nodes if _name(node) == chosen]
        return answer | {"Nodes": {"items": items}, "NodeNames": None, "Error": ""}

    def prioritize(self, body: Tree) -> list[dict[str, object]]:
        """Ten for the planned node; less for others, the farther they are from it."""
        asked = _read(body)
        with self._lock:
            chosen, _ = self._choose(asked)
            topology = self._topology(asked)
        return [{"Host": name, "Score": _nearness(topology, chosen, name)} for name in asked.names]

    def _topology(self, asked: "_Asked") -> Topology:
        if asked.nodes is not None:
            return self._topologies.of(asked.nodes)
        own = self._topologies.own()
        unknown = [name for name in asked.names if name not in own.node_index]
        if unknown:
            raise MalformedRequest(
                Problem("NodeNames", f"node '{unknown[0][:80]}' is not in the inventory")
            )
        return own

    def _choose(self, asked: "_Asked") -> tuple[str, str]:
        """The pod's node, or "" and why there is none."""
        gang = self._gangs.setdefault(asked.key, _Gang())
        self._gangs.move_to_end(asked.key)
        self._forget_oldest()
        known = gang.taken.get(asked.uid)
        if known is not None and known in asked.names:
            return known, ""
        free = next((name for name in gang.free if name in asked.names), None)
        if free is None:
            # The first of its gang, one member more, or its place is gone: what is left anew.
            left = max(1, asked.size - len(gang.taken) + (known is not None))
            found = self._place(asked, left)
            if isinstance(found, str):
                return "", found
            gang.free = found
            free = found[0]
        gang.free.remove(free)
        gang.taken[asked.uid] = free
        if len(gang.taken) > MEMBERS_MAX:
            del gang.taken[next(iter(gang.taken))]
        return free, ""

    def _forget_oldest(self) -> None:
        """Keep within bounds: nobody says that a gang is over, and new pods have new uids."""
        while len(self._gangs) > GANGS_KEPT or (self.places > PLACES_KEPT and len(self._gangs) > 1):
            self._gangs.popitem(last=False)

    @property
    def places(self) -> int:
        """Places that are remembered, of all gangs."""
        return sum(len(gang.free) + len(gang.taken) for gang in self._gangs.values())

    def _place(self, asked: "_Asked", members: int) -> list[str] | str:
        topology = self._topology(asked)
        trial = trial_of(topology, {})
        for index, node in enumerate(topology.nodes):
            if node.name not in asked.names:
                trial.table.set_aside(index, "not offered")
        role = Role("pod", members, members, asked.gpus, asked.resources)
        spec = JobSpec(name="gang", roles=(role,), rules=rules_of(asked.tiers, topology))
        found = place(trial, with_where(spec, [asked.pod]))
        if not isinstance(found, Placement):
            return found.message
        return [topology.nodes[pod.node_index].name for pod in found.pods]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A pod and the nodes it may go to.

    Attributes:
        key: Its gang; that of a pod without one is its own.
        size: Pods of the gang that start together.
        nodes: None where the request has only their names.
        tiers: As `networkTopology` says it.
    """

    key: tuple[str, str]
    uid: str
    size: int
    pod: Tree
    gpus: int
    resources: Resources
    names: Sequence[str]
    nodes: list[object] | None
    tiers: dict[str, object]


def _read(body: Tree) -> _Asked:
    pod = required(body, "Pod")
    meta = tree_at(pod, "metadata")
    spec = _checked(dict(tree_at(pod, "spec")))
    nodes = list_at(tree_at(body, "Nodes"), "items") if pick(body, "Nodes") is not None else None
    if nodes is None:
        names = [name for name in list_at(body, "NodeNames") if isinstance(name, str)]
    else:
        names = [_name(node) for node in nodes]
    notes, labels = tree_at(meta, "annotations"), tree_at(meta, "labels")
    group = _first(notes, GROUP_NAMES) or _first(labels, GROUP_LABELS)
    uid = text_at(meta, "uid") or text_at(meta, "name")
    requests = requests_of(spec)
    other = {
        name: ceil(number)
        for name, number in sorted(requests.items())
        if name not in ("cpu", "memory", *GPU_RESOURCES, *UNCOUNTED) and number > 0
    }
    return _Asked(
        key=(text_at(meta, "namespace"), group or f"pod/{uid}"),
        uid=uid,
        size=_size(notes, labels) if group else 1,
        pod={"spec": spec},
        gpus=ceil(sum(requests.get(name, 0) for name in GPU_RESOURCES)),
        resources=Resources(
            cpu_milli=ceil(requests.get("cpu", 0) * 1_000),
            memory_mib=ceil(requests.get("memory", 0) / MIB),
            other=tuple(other.items()),
        ),
        names=names,
        nodes=nodes,
        tiers=_tiers(notes),
    )


def _checked(spec: dict[str, object]) -> dict[str, object]:
    """The spec of a pod without its nulls, which count as left out."""
    problems = list(shape_problems(POD_SPEC, spec, "Pod.spec"))
    if problems:
        raise MalformedRequest(problems)
    return cast(dict[str, object], filled(POD_SPEC, spec))


def _tiers(notes: Tree) -> dict[str, object]:
    tier = text_at(notes, TIER)
    found: dict[str, object] = {"mode": text_at(notes, MODE) or "hard"}
    if tier.isdecimal() and len(tier) < 4:
        found["highestTierAllowed"] = int(tier)
    return found if text_at(notes, MODE) or tier else {}


def _size(notes: Tree, labels: Tree) -> int:
    """Pods of the gang, as whichever of its marks says; 1 where none does."""
    text = _first(notes, SIZES) or _first(labels, SIZES)
    if not (text.isdecimal() and len(text) < 9):
        return 1
    return max(1, min(int(text), MEMBERS_MAX))


def _first(values: Tree, names: Sequence[str]) -> str:
    return next((text for name in names if (text := text_at(values, name))), "")


def _name(node: object) -> str:
    return text_at(tree_at(node, "metadata"), "name")


def _nearness(topology: Topology, chosen: str, name: str) -> int:
    """Ten on the node itself, less for each level that has to be left, 0 without one in common."""
    if name == chosen:
        return SCORE_MAX
    here, there = topology.node_index.get(name), topology.node_index.get(chosen)
    if here is None or there is None:
        return 0
    levels = topology.levels[:-1]
    shared = sum(
        topology.place[depth][here] == topology.place[depth][there]
        and not level.is_blank(topology.place[depth][here])
        for depth, level in enumerate(levels)
    )
    return shared * (SCORE_MAX - 1) // max(1, len(levels))
