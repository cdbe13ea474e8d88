"""What gangs were given, rebuilt from the decision log alone."""

from dataclasses import replace

from api.loop.replay import last_told
from api.store.engine import Database
from api.store.promised import Promised


def promised_by_log(db: Database, rest: float = 0.0) -> Promised | None:
    """The live pods after the last decision in the log; None where it has none.

    Pods change by decisions alone, so nothing can have come between what it saw and its commit.

    Args:
        rest: See `last_told`.
    """
    found = last_told(db, rest)
    if found is None:
        return None
    decision = found.decision
    pods = {uid: pod for pods in found.world.on_node.values() for uid, pod in pods.items()}
    for move in decision.plan.pod_moves:
        pod = pods.get(move.uid)
        if pod is not None and pod.job not in decision.dropped:
            pods[move.uid] = replace(pod, state=move.state)
    pods |= {p.uid: p for p in decision.plan.pods if p.job not in decision.dropped}
    live = {uid: pod for uid, pod in pods.items() if pod.is_live}
    return Promised(decision.committed, live)
