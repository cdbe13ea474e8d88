"""Nodes that fail more than their like: lemons, quarantine, and domains with several bad nodes."""

from collections.abc import Iterable

from scheduler.policy import Policy

QUARANTINE_MAX_S = 7 * 86_400.0
"""However often a node fails, it is looked at again after so long."""


def is_lemon(faults: int, faults_of_fleet: int, nodes: int, policy: Policy) -> bool:
    """Whether a node has far more faults than its like.

    Args:
        faults: Of the node within `policy.lemon_window_s`.
        faults_of_fleet: Of all nodes within it, this one's included.
        nodes: Nodes in all; at least 1.
    """
    if faults < policy.lemon_faults:
        return False
    others = (faults_of_fleet - faults) / max(nodes - 1, 1)
    return faults >= policy.lemon_factor * others


def quarantined_until_s(
    lost_at_s: Iterable[float], quarantines: int, policy: Policy, now_s: float
) -> float | None:
    """Unix seconds until when a node that comes and goes is kept out; None when it is not.

    Args:
        lost_at_s: When it was lost or out, this time included.
        quarantines: How often it was kept out for that before; each time is twice as long.
    """
    recent = sum(now_s - policy.flap_window_s < at_s <= now_s for at_s in lost_at_s)
    if not policy.quarantine_s or recent < policy.flap_count:
        return None
    return now_s + min(policy.quarantine_s * 2.0 ** min(quarantines, 30), QUARANTINE_MAX_S)


def drains_domain(bad: int, nodes: int, policy: Policy) -> bool:
    """Whether so many bad nodes drain the whole scale-up domain that they are in.

    Args:
        bad: Nodes of the domain that are lost, out or have an open fault that asks for a reset.
        nodes: Nodes of the domain; one node is no domain of its own.
    """
    return nodes > 1 and bool(policy.escalate_nodes) and bad >= min(policy.escalate_nodes, nodes)
