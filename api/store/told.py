"""What the one event says that a plan makes about a job, or about a maintenance window."""

from typing import NamedTuple

from api.clock import rfc3339
from api.schemas.spec import dump_eviction, dump_rules
from api.store.job_recovery import dump_recovery
from api.store.parts import Part, is_pool
from api.store.rows import AnyRow
from scheduler.model.claim import Claim, ClaimWhy
from scheduler.model.lifecycle import JobState
from scheduler.model.plan import Eviction, JobMove, PodMove

NODES_SHOWN = 32
"""Names of nodes in an event."""

NODES_SAID = 4
"""Names of nodes in a message."""

_PURPOSE = {
    ClaimWhy.RESERVATION: "reserved for it",
    ClaimWhy.PREEMPTION: "kept for it until those that are there have left",
    ClaimWhy.RECOVERY: "kept for it while it recovers",
    ClaimWhy.SPARE: "kept for it as spares",
    ClaimWhy.POOL: "kept for gangs in recovery",
    ClaimWhy.MAINTENANCE: "kept free",
}


class Told(NamedTuple):
    """An event without its subject; no kind when nothing is to be told."""

    kind: str = ""
    message: str = ""
    body: dict[str, object] | None = None


NOTHING_TOLD = Told()


def job_event(row: AnyRow, part: Part, pod_moves: list[PodMove]) -> Told:
    """The event about a job."""
    move = part.move
    told = NOTHING_TOLD if move is None else _standing(row, move, part, pod_moves)
    if told.kind:
        return told
    surplus = [m for m in pod_moves if m.surplus]
    if surplus:
        body = _body(move, part) | _shrunk(surplus)
        return Told("job.shrunk", _shrunk_message(surplus, part), body)
    if move is not None and dump_rules(move.broken) != row._mapping["broken"]:
        said = ", ".join(f"{r.group or 'part'} within {r.within}" for r in move.broken)
        return Told("job.rules", f"not kept: {said}" if said else "all rules are kept")
    if part.pods:
        return _arriving(part)
    if pod_moves:
        return Told("job.pods", _pods_message(pod_moves))
    if part.claims or part.claims_gone:
        return Told("job.claims", claims_message(part.claims, part.claims_gone), _body(move, part))
    if move is not None:
        return _forecast(row, move)
    return NOTHING_TOLD


def window_event(part: Part, *, is_over: bool) -> Told:
    """The event about a maintenance window, or the pool of a domain."""
    if is_pool(part):
        return Told("pool.claims", claims_message(part.claims, part.claims_gone))
    if is_over:
        return Told("reservation.ended", "it is over")
    return Told("reservation.claims", claims_message(part.claims, part.claims_gone))


def claims_message(new: list[Claim], gone: list[str]) -> str:
    """`32 GPUs of 4 nodes are reserved for it from 2026-12-01T10:00:00Z; 4 claims ended`."""
    words = []
    if new:
        nodes, gpus = len({c.node for c in new}), sum(c.gpu_mask.bit_count() for c in new)
        starts = min(c.starts_s for c in new)
        since = f" from {rfc3339(starts)}" if starts else ""
        words.append(f"{gpus} GPUs of {nodes} nodes are {_PURPOSE[new[0].why]}{since}")
    replaced = {claim.uid for claim in new}
    ended = sum(uid not in replaced for uid in gone)
    if ended:
        words.append(f"{ended} claims ended")
    return "; ".join(words)


def _standing(row: AnyRow, move: JobMove, part: Part, pod_moves: list[PodMove]) -> Told:
    """A new state, reason, message or way out of the job."""
    old = row._mapping
    body = _body(move, part)
    if move.evict is not None:
        body |= _eviction(move.evict) | {"pods_leaving": len(pod_moves)}
    if (move.state, move.attempt) != (old["state"], old["attempt"]):
        return Told(f"job.{move.state}", _message(move, part, old["attempt"]), body)
    if (move.reason, move.message) != (old["reason"], old["message"]):
        return Told(f"job.{move.state}", move.message, body)
    if dump_eviction(move.evict) != old["evict"]:
        said = "it stays after all" if move.evict is None else _leaves(move.evict)
        return Told("job.eviction", said, body)
    if move.held != bool(old["held"]):
        said = "it does not start before it is released" if move.held else "it may start"
        return Told("job.held" if move.held else "job.released", said)
    return NOTHING_TOLD


def _forecast(row: AnyRow, move: JobMove) -> Told:
    """What is known of its start."""
    old = row._mapping
    if move.expected_start_s != old["expected_start_at"]:
        if move.expected_start_s is None:
            return Told("job.forecast", "its start is not known any more")
        at = rfc3339(move.expected_start_s)
        return Told("job.forecast", f"expected to start at {at}", {"expected_start": at})
    if move.could_start_s != old["could_start_at"]:
        return Told("job.forecast", "it could start, and waits for a better place")
    if dump_recovery(move) != old["recovery"]:
        return Told("job.recovery", "what is known of its crashes and losses has changed")
    return NOTHING_TOLD


def _arriving(part: Part) -> Told:
    """Pods that start, or start anew, of a job that otherwise stands as it did."""
    again = [pod for pod in part.pods if pod.attempt > 1]
    body = _body(part.move, part)
    if not again:
        return Told("job.grown", f"{len(part.pods)} pods joined", body)
    return Told("job.restarting", _anew(part), body | {"restarted": len(again)})


def _anew(part: Part) -> str:
    """`2 pods start anew, on n004, n005; 1 joined`."""
    again = [pod for pod in part.pods if pod.attempt > 1]
    names = list(dict.fromkeys(pod.node for pod in again))
    more = f" and {len(names) - NODES_SAID} more" if len(names) > NODES_SAID else ""
    joined = f"; {new} joined" if (new := len(part.pods) - len(again)) else ""
    who = "1 pod starts" if len(again) == 1 else f"{len(again)} pods start"
    return f"{who} anew, on {', '.join(names[:NODES_SAID])}{more}{joined}"


def _message(move: JobMove, part: Part, attempt: int) -> str:
    """What becomes of a job that was in this attempt."""
    if move.attempt == attempt and any(pod.attempt > 1 for pod in part.pods):
        return _anew(part)
    if move.state is JobState.BOUND and part.pods:
        node_count = len({pod.node for pod in part.pods})
        return f"{len(part.pods)} pods on {node_count} nodes"
    if move.message:
        return move.message
    if move.evict is not None:
        return _leaves(move.evict)
    if part.claims:
        return claims_message(part.claims, [])
    return ""


def _leaves(evict: Eviction) -> str:
    why = f": {evict.why}" if evict.why else ""
    return f"{evict.step}, then {evict.then}{why}"


def _eviction(evict: Eviction) -> dict[str, object]:
    return {
        "then": evict.then,
        "step": evict.step,
        "deadline": None if evict.deadline_s is None else rfc3339(evict.deadline_s),
        "why": evict.why,
        "for_job": evict.for_job,
    }


def _body(move: JobMove | None, part: Part) -> dict[str, object]:
    body: dict[str, object] = {}
    if move is not None:
        body = {"attempt": move.attempt, "reason": move.reason}
        if move.expected_start_s is not None:
            body["expected_start"] = rfc3339(move.expected_start_s)
    if part.pods:
        names = list(dict.fromkeys(pod.node for pod in part.pods))
        body |= {"pods": len(part.pods), "nodes": names[:NODES_SHOWN], "node_count": len(names)}
    if part.claims:
        names = list(dict.fromkeys(claim.node for claim in part.claims))
        body |= {"claims": len(part.claims), "claimed_nodes": names[:NODES_SHOWN]}
    return body


def _shrunk_message(surplus: list[PodMove], part: Part) -> str:
    joined = f"; {len(part.pods)} joined" if part.pods else ""
    return f"{len(surplus)} pods stopped, as the job is to have fewer members{joined}"


def _shrunk(surplus: list[PodMove]) -> dict[str, object]:
    return {"stopped": len(surplus), "stopped_uids": [m.uid for m in surplus[:NODES_SHOWN]]}


def _pods_message(moves: list[PodMove]) -> str:
    by_state: dict[str, int] = {}
    for move in moves:
        by_state[move.state] = by_state.get(move.state, 0) + 1
    return ", ".join(f"{count} {state}" for state, count in sorted(by_state.items()))
