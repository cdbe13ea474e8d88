"""What goes wrong and what people do meanwhile, drawn from a seed: rates and their sources."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

DAY_S = 86_400.0

NODE_FAULTS_PER_NODE_DAY = 419 / (54 * 2_048)
"""3.8 of 1,000 nodes a day: 419 unplanned interruptions in 54 days on 16,384 H100 GPUs, 8 to a
node. Source: Llama Team, "The Llama 3 Herd of Models", 2024, section 3.3.4, table 5; of the same
order as the 2.3 to 6.5 of Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning
Research Clusters", HPCA 2025."""

REPAIR_S = 4 * 3_600.0
"""Mean time until a faulty node is back. Our own assumption: neither source states it."""


class Kind(StrEnum):
    """What happens to a simulated service."""

    NODE_LOST = "node_lost"
    """The machine is gone with its pods, until NODE_BACK."""
    NODE_BACK = "node_back"
    SILENCE = "silence"
    """A node's agent is not heard, until SPEAK; its pods run on."""
    SPEAK = "speak"
    DRAIN = "drain"
    """Somebody wants a node emptied, at once, later or when there is a place; until UNDRAIN."""
    UNDRAIN = "undrain"
    CORDON = "cordon"
    UNCORDON = "uncordon"
    CRASH = "crash"
    """The service dies and starts anew from what is durable."""
    CANCEL = "cancel"
    PRIORITY = "priority"
    HOLD = "hold"
    RELEASE = "release"
    SUSPEND = "suspend"
    RESUME = "resume"
    REQUEUE = "requeue"
    QUOTA = "quota"
    """A queue's quota and limit become others."""
    PAUSE = "pause"
    """Nothing is placed, until UNPAUSE."""
    UNPAUSE = "unpause"
    WINDOW = "window"
    """A maintenance window on some nodes, from some time later on."""
    POD_CRASH = "pod_crash"
    """One running pod exits with an error."""


@dataclass(frozen=True, slots=True)
class Incident:
    """One thing that happens.

    Attributes:
        at_s: Seconds from the start of the simulation.
        node: Of node incidents.
        pick: 0 to 1; which of the jobs or queues there are at that time.
        amount: 0 to 1; how much, where there is a how much.
    """

    at_s: float
    kind: Kind
    node: str = ""
    pick: float = 0.0
    amount: float = 0.0


@dataclass(frozen=True, slots=True)
class Rates:
    """How often, as mean events per day of the whole cluster, beside faults of nodes.

    Attributes:
        node_faults_per_node_day: Each node's own; repaired after `repair_s` on average.
        people: Kind -> events a day.
    """

    node_faults_per_node_day: float = NODE_FAULTS_PER_NODE_DAY
    repair_s: float = REPAIR_S
    people: tuple[tuple[Kind, float], ...] = ()


ENDED_BY = {
    Kind.CORDON: Kind.UNCORDON,
    Kind.SILENCE: Kind.SPEAK,
    Kind.DRAIN: Kind.UNDRAIN,
    Kind.HOLD: Kind.RELEASE,
    Kind.SUSPEND: Kind.RESUME,
    Kind.PAUSE: Kind.UNPAUSE,
}
"""What undoes a thing some time later."""


def incidents(nodes: Sequence[str], rates: Rates, span_s: float, seed: int) -> list[Incident]:
    """Everything that happens within `span_s`, in order of time; the same for the same seed."""
    chance = random.Random(f"faults-{seed}")
    found = list(_node_faults(nodes, rates, span_s, chance))
    for kind, per_day in rates.people:
        if per_day <= 0.0:
            continue
        at_s = chance.expovariate(per_day / DAY_S)
        while at_s < span_s:
            node = chance.choice(nodes)
            pick, amount = chance.random(), chance.random()
            found.append(Incident(at_s, kind, node, pick, amount))
            if kind in ENDED_BY:
                ends_s = at_s + chance.expovariate(1.0 / rates.repair_s)
                found.append(Incident(ends_s, ENDED_BY[kind], node, pick, amount))
            at_s += chance.expovariate(per_day / DAY_S)
    return sorted(found, key=lambda i: (i.at_s, i.kind, i.node))


def _node_faults(
    nodes: Sequence[str], rates: Rates, span_s: float, chance: random.Random
) -> list[Incident]:
    per_day = rates.node_faults_per_node_day * len(nodes)
    found: list[Incident] = []
    if per_day <= 0.0:
        return found
    at_s = chance.expovariate(per_day / DAY_S)
    while at_s < span_s:
        node = chance.choice(nodes)
        back_s = at_s + chance.expovariate(1.0 / rates.repair_s)
        found += [Incident(at_s, Kind.NODE_LOST, node), Incident(back_s, Kind.NODE_BACK, node)]
        at_s += chance.expovariate(per_day / DAY_S)
    return found
