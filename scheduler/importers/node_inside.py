"""What is inside one node (GPUs, NICs, the way between them, NVLink) -> a node type."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.importers.machines import NAMELESS_GPU, gpu_count_problem
from scheduler.importers.node_types import default_rails
from scheduler.importers.options import Options
from scheduler.importers.refusals import refuse
from scheduler.model.node import NODE_LEVEL, Inventory, NodeType

LINK_GBPS = 200.0
"""One NVLink, one way, of the generations 2 to 4 (V100, A100, H100): 25 GB/s."""

LINK_GBPS_BY_SM = {"100": 400.0, "103": 400.0}
"""The same where the compute capability tells a newer generation: 50 GB/s."""

TYPE_NAME = "measured"
"""Name of the type where the import names none."""


@dataclass(frozen=True, slots=True)
class Inside:
    """One node's parts.

    Attributes:
        distances: For each GPU, how far each NIC is; only the order of the numbers counts.
        links: For each GPU, its NVLinks in all.
        is_full: Whether every two GPUs have an NVLink or a switch between them.
        link_gbps: One NVLink's bandwidth, one way.
        nic_gbps: One NIC's bandwidth; 0 where it is not told.
    """

    distances: Sequence[Sequence[int]]
    links: Sequence[int]
    is_full: bool
    link_gbps: float = LINK_GBPS
    nic_gbps: float = 0.0


def inventory_of_inside(inside: Inside, options: Options, source: str) -> Inventory:
    """An inventory of one node type and no nodes.

    What the import says of the type stays, save what was measured.

    Raises:
        InventoryError: If there is no GPU, or the type is said to have another number of them.
    """
    gpus = len(inside.distances)
    problem = gpu_count_problem(gpus) or (None if gpus else "no GPU found")
    if problem is not None:
        raise refuse("", problem)
    base = options.node_type or NodeType(TYPE_NAME, gpu=NAMELESS_GPU, gpus=gpus)
    if base.gpus != gpus:
        message = f"node type '{base.name}' has {base.gpus} GPUs; {gpus} were found"
        raise refuse("node_type", message)
    rails = _rails(inside.distances)
    warnings: list[str] = []
    if any(inside.links) and not inside.is_full:
        warnings.append("some pairs of GPUs have no NVLink between them; they talk over PCIe")
    if not rails:
        warnings.append("no NIC found, so the rails are not known")
    found = replace(
        base,
        rails=len(set(rails)),
        rail_of_gpu=rails or default_rails(gpus, 0),
        nic_gbps=inside.nic_gbps or base.nic_gbps,
        scale_up=base.scale_up or NODE_LEVEL,
        scale_up_gbps=base.scale_up_gbps or min(inside.links, default=0) * inside.link_gbps,
        source=base.source or source,
    )
    return Inventory(
        cluster=options.cluster,
        levels=(NODE_LEVEL,),
        scale_up=NODE_LEVEL,
        node_types={found.name: replace(found, scale_up=NODE_LEVEL)},
        nodes=(),
        warnings=tuple(warnings),
    )


def _rails(distances: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The rail next to each GPU: rails are numbered in the order in which GPUs need them.

    A GPU takes the nearest NIC; of several, the one that fewest GPUs have, then the first.
    """
    users: Counter[int] = Counter()
    nic_of: list[int] = []
    for row in distances:
        if not row:
            return ()
        nearest = [nic for nic, distance in enumerate(row) if distance == min(row)]
        nic = min(nearest, key=lambda nic: (users[nic], nic))
        users[nic] += 1
        nic_of.append(nic)
    rail_of: Mapping[int, int] = {nic: rail for rail, nic in enumerate(dict.fromkeys(nic_of))}
    return tuple(rail_of[nic] for nic in nic_of)
