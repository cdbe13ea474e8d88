"""Every number of the cost model that no inventory states, in one versioned table."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType

from scheduler.parallel.traffic import TRAFFIC_DEFAULTS, TrafficDefaults


@dataclass(frozen=True, slots=True)
class Constants:
    """What prices are made of; `dataclasses.replace` makes another table, as benchmarks do.

    `SOURCES` says where each number comes from.

    Attributes:
        version: Changes with any number; it is in every answer.
        scale_up_efficiency: Share of a GPU's NVLink rate that a collective reaches; 0 to 1.
        nic_efficiency: The same of a NIC.
        tier_efficiency: What is left of a flow's rate each time it goes up one tier of switches.
        beyond_oversubscription: Of the links above the outermost level that the fabric names.
        default_nic_gbps: Of a GPU whose node type does not say; Gbit/s, one way.
        default_scale_up_gbps: The same inside the scale-up domain.
        cross_rail_factor: Bytes of a group that is not rail-true count so many times at the NICs.
        foreign_rail_share: Of a NIC next to a GPU of somebody else, where all own rails are dead.
        no_rail_share: Of a NIC's rate that is left where every rail of the node is dead.
        call_s: Fixed time of one collective.
        scale_up_hop_s, network_hop_s: Fixed time of one hop.
        tier_s: Added for each tier of switches that a hop goes up.
        detour_s: Added to a hop through the NIC of another GPU.
        peer_s: Fixed time of one further peer in an all-to-all.
        traffic: What is taken of a job's traffic where nobody described its model.
    """

    version: str = "2026-12-01"
    scale_up_efficiency: float = 0.82
    nic_efficiency: float = 0.94
    tier_efficiency: float = 0.9
    beyond_oversubscription: float = 1.0
    default_nic_gbps: float = 100.0
    default_scale_up_gbps: float = 512.0
    cross_rail_factor: float = 1.25
    foreign_rail_share: float = 0.5
    no_rail_share: float = 0.01
    call_s: float = 8.4e-6
    scale_up_hop_s: float = 3.4e-6
    network_hop_s: float = 14.0e-6
    tier_s: float = 1.0e-6
    detour_s: float = 3.4e-6
    peer_s: float = 1.0e-6
    traffic: TrafficDefaults = field(default=TRAFFIC_DEFAULTS)


CONSTANTS = Constants()

_NCCL = "NCCL, src/graph/tuning.cc"

SOURCES: Mapping[str, str] = MappingProxyType(
    {
        "scale_up_efficiency": "370 of 450 GB/s in a ring of 8 H100, about 20 % of overhead: "
        "NVIDIA/nccl-tests issue 212, S. Jeaugey, 2024",
        "nic_efficiency": "46 to 48 of 50 GB/s for each 400 Gbit/s NIC: NVIDIA/nccl-tests issue "
        "290, 2025",
        "tier_efficiency": "between static hashing (84.5 % of the rate) and adaptive routing "
        "(97 %) of NCCL on leaf and spine: Asterfusion, 'Maximizing NCCL cluster performance "
        "with flowlet-based adaptive routing', 2025",
        "beyond_oversubscription": "an inventory that does not name a level says nothing of it; "
        "what is not stated is taken as non-blocking",
        "default_nic_gbps": "judgement: one 100 Gbit/s port, the least that is sold for training",
        "default_scale_up_gbps": "PCI Express 5.0 x16: 64 GB/s one way; GPUs without other links",
        "cross_rail_factor": "judgement: the detour over NVLink (PXN) keeps the NIC's rate but "
        "adds a copy, and without PXN the spine carries it; NVIDIA, 'Doubling all2all "
        "performance with NCCL 2.12'",
        "foreign_rail_share": "fair share of a NIC between two users",
        "no_rail_share": "judgement: a management port of 1 to 10 Gbit/s beside NICs of 400",
        "call_s": f"{_NCCL}: baseLatencies, ring, Simple: 8.4 us",
        "scale_up_hop_s": f"{_NCCL}: hwLatencies, NVLink, ring, Simple: 3.4 us",
        "network_hop_s": f"{_NCCL}: hwLatencies, network, ring, Simple: 14 us",
        "tier_s": "judgement: two more switches of 0.2 to 0.7 us each and 50 m of cable",
        "detour_s": "one hop over NVLink, as scale_up_hop_s",
        "peer_s": "judgement: posting one more send of a group of sends",
        "traffic": "scheduler.parallel.traffic, TrafficDefaults",
    }
)
"""Field -> where its number comes from."""


def numbers() -> tuple[str, ...]:
    """Fields that are numbers, for whoever wants to change them one by one."""
    return tuple(f.name for f in fields(Constants) if f.name not in ("version", "traffic"))


def traffic_numbers() -> tuple[str, ...]:
    """The same of what is taken of a job's traffic, as `traffic.dp_gb`."""
    return tuple(f"traffic.{f.name}" for f in fields(TrafficDefaults))


def changed(constants: Constants, name: str, factor: float) -> Constants:
    """The table with one number, as `numbers` or `traffic_numbers` names it, times a factor.

    Counts stay whole, at least 1.
    """
    inner = name.removeprefix("traffic.")
    if inner == name:
        return replace(constants, **{name: getattr(constants, name) * factor})
    value = getattr(constants.traffic, inner)
    new = max(1, round(value * factor)) if isinstance(value, int) else value * factor
    return replace(constants, traffic=replace(constants.traffic, **{inner: new}))
