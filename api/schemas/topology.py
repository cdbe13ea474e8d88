"""The map: levels, domains, racks, and totals."""

from api.schemas.common import Page, Strict


class Domain(Strict):
    """One place at one level.

    `nodes_free` take new pods and hold none on their GPUs; `gpus_free` are those of usable nodes.
    `health` counts nodes.
    """

    level: str
    name: str
    parent: str | None
    nodes: int
    nodes_free: int
    gpus: int
    gpus_free: int
    jobs: int
    health: dict[str, int]


class Rack(Domain):
    """A rack with its power in kW, as far as known; a node in use counts its full draw."""

    power_kw: float | None
    power_used_kw: float | None
    cdu: str | None


class DomainPage(Page[Domain]):
    """Domains of one level in the order of the map."""


class RackPage(Page[Rack]):
    """Racks in the order of the map."""


class LevelDetail(Strict):
    """A level and how many named domains it has."""

    name: str
    domains: int


class TreeDomain(Strict):
    """A domain with those inside it, above the nodes; nameless = nodes without a place."""

    level: str
    name: str
    nodes: int
    nodes_free: int
    gpus: int
    gpus_free: int
    children: list["TreeDomain"]


class Topology(Strict):
    """The cluster; `levels` outermost first, the last is the nodes themselves."""

    cluster: str
    levels: list[str]
    scale_up: str
    levels_detail: list[LevelDetail]
    nodes: int
    gpus: int
    tree: list[TreeDomain]
    revision: int


class NodeTotals(Strict):
    """`usable` take new pods; `free` are usable and hold no pod on their GPUs."""

    total: int
    usable: int
    free: int


class GpuTotals(Strict):
    """`free` on usable nodes; `aside`: held by no pod, on nodes that take no new ones."""

    total: int
    used: int
    free: int
    aside: int


class QueueTotals(Strict):
    name: str
    quota_gpus: int | None
    limit_gpus: int | None
    used_gpus: int
    pending: int


class GangRoom(Strict):
    """Pods, and GPUs, that one gang could have now."""

    pods: int
    gpus: int


class DomainRoom(GangRoom):
    """The same inside one domain of a level: the one that holds most; null when none holds any."""

    level: str
    domain: str | None


class LargestGang(Strict):
    """The largest gang of one shape that fits now: pods of so many GPUs each, several to a node.

    `cluster`: wherever its pods lie; `within`: inside one domain of each level. Nodes that are set
    aside or tainted, GPUs in use and those claimed for somebody are left out; quota and limits of
    queues are not looked at. Of the 16 node types that have most nodes.
    """

    node_type: str
    gpus_per_pod: int
    whole_nodes: bool
    cluster: GangRoom
    within: list[DomainRoom]
