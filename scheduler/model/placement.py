"""A proposal of where a gang's pods go, or why there is none."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.model.job import Rule
from scheduler.model.lifecycle import Reason
from scheduler.model.resources import NOTHING, Resources


@dataclass(frozen=True, slots=True)
class PodPlace:
    """One pod on one node.

    Attributes:
        index: Counts within the role; for a parallel job, rank // gpus_per_pod.
        node_index: Dense index in the topology the placement was made on.
        gpu_mask: Bit i = GPU i of the node. Rank `first_rank + k` has the k-th set bit.
        first_rank: First of the pod's consecutive ranks; for roles, ranks count through all GPUs.
        exclusive: No other job may have pods on the node.
    """

    role: str
    index: int
    node_index: int
    gpu_mask: int
    first_rank: int
    resources: Resources = NOTHING
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """Where every pod of a gang (or of its growth) goes.

    Attributes:
        pods: By role in the job's order, then by index.
        node_type: Name of the type all GPU pods are on; "" when roles differ.
        gpus_per_pod: Ranks of a pod of a parallel job; 0 for roles.
        search: `exact`: nothing keeps preferred rules better, or is predicted more than 1 % faster;
            `bounded` when that is not proven.
        gap: Of a bounded search, the most by which another placement could be faster, as a share of
            the predicted seconds of this one; None where nothing was compared.
        predicted_s: Communication between nodes of one step by the cost model; None where nothing
            was compared.
    """

    pods: tuple[PodPlace, ...]
    node_type: str
    gpus_per_pod: int = 0
    search: str = "exact"
    gap: float | None = None
    predicted_s: float | None = None


@dataclass(frozen=True, slots=True)
class Nearest:
    """The domain that comes closest to holding the gang.

    Attributes:
        level, domain: Empty for the whole cluster.
        lacks_nodes: Further free nodes it would need; 0 where nodes are shared between pods.
        lacks_gpus: The same in GPUs.
    """

    level: str
    domain: str
    lacks_nodes: int
    lacks_gpus: int


@dataclass(frozen=True, slots=True)
class NoFit:
    """Why a gang has no place.

    Attributes:
        never: Not even on every known node empty, healthy and uncordoned.
        code: `room` or `rule`; other codes are set by stages before placement.
        rule: The rule that binds, where one does.
        fitting, wanted: Members that would fit now, of those that must.
        set_aside: Reason -> nodes that were not looked at for it.
        search: `bounded` when a place may have been missed.
    """

    never: bool
    code: Reason
    message: str
    rule: Rule | None = None
    nearest: Nearest | None = None
    fitting: int = 0
    wanted: int = 0
    set_aside: Mapping[str, int] = field(default_factory=dict)
    search: str = "exact"
