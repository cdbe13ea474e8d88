"""Why a job has no place, or that it has one, in a few lines of plain text."""

from collections.abc import Iterator, Mapping, Sequence

from client.cli.text import age, count, duration, now_s, unix_s
from client.shapes import Change, Holder, Nearest, Pod, Rule, Verdict

HEADLINES = {
    "now": "fits now",
    "not_now": "does not fit now",
    "never": "never fits, not even on the empty, healthy cluster",
}


def when_of(verdict: Verdict) -> str:
    """`now`, `not_now` or `never`."""
    return verdict.get("when") or ("now" if verdict.get("fits") else "not_now")


def reason_text(verdict: Verdict) -> str:
    """The service's own sentence, or what little is known without it."""
    when = when_of(verdict)
    return verdict.get("message") or HEADLINES.get(when, when)


def verdict_pairs(verdict: Verdict) -> Iterator[tuple[str, object]]:
    """What is known beyond the message, as names and values; nothing for what is not known."""
    if rule := verdict.get("rule"):
        yield "Rule", rule_text(rule)
    if nearest := verdict.get("nearest"):
        yield "Nearest", nearest_text(nearest)
    if wanted := verdict.get("wanted"):
        yield "Fit now", f"{verdict.get('fitting', 0)} of {count(wanted, 'pod')}"
    if aside := verdict.get("set_aside"):
        yield "Nodes set aside", set_aside_text(aside)
    if holders := verdict.get("holders"):
        yield "Held by", [_holder_text(holder) for holder in holders]
    if start := verdict.get("expected_start"):
        yield "Expected start", _time_text(start)
    if changes := verdict.get("changes"):
        yield "Would help", [_change_text(change) for change in changes]
    if verdict.get("search") == "bounded":
        yield "Search", "cut short; a place may have been missed"


def rule_text(rule: Rule) -> str:
    """`pp within leaf, required`."""
    return (
        f"{rule.get('group') or 'part'} within {rule.get('within')}, {rule.get('mode', 'required')}"
    )


def nearest_text(nearest: Nearest) -> str:
    """`leaf 'l3' lacks 4 nodes (32 GPUs)`."""
    where = (
        f"{nearest['level']} '{nearest.get('domain')}'" if nearest.get("level") else "the cluster"
    )
    lacks = nearest.get("lacks") or {}
    nodes, gpus = lacks.get("nodes", 0), lacks.get("gpus", 0)
    if nodes and gpus:
        return f"{where} lacks {count(nodes, 'node')} ({count(gpus, 'GPU')})"
    if nodes or gpus:
        return f"{where} lacks {count(nodes, 'node') if nodes else count(gpus, 'GPU')}"
    return where


def set_aside_text(aside: Mapping[str, int]) -> str:
    """Nodes that were not looked at: `12 gpus in use, 3 cordoned`."""
    return ", ".join(f"{number} {reason.replace('_', ' ')}" for reason, number in aside.items())


def _holder_text(holder: Holder) -> str:
    end = holder.get("expected_end")
    until = f" until {_time_text(end)}" if end else ""
    return f"{holder.get('job')}: {count(holder.get('gpus', 0), 'GPU')}{until}"


def _change_text(change: Change) -> str:
    what = " ".join(str(value) for key, value in change.items() if key != "verified")
    return f"{what} ({'verified' if change.get('verified') else 'not verified'})"


def _time_text(stamp: str) -> str:
    at_s = unix_s(stamp)
    if at_s is None:
        return stamp
    ahead_s = at_s - now_s()
    return f"{stamp}, in {duration(ahead_s)}" if ahead_s > 0 else f"{stamp}, {age(stamp)} ago"


def spread(pods: Sequence[Pod]) -> str:
    """How many domains of each level, and nodes, the pods are in: `block 1, leaf 4, node 128`."""
    used: dict[str, set[str]] = {}
    nodes: set[str] = set()
    for pod in pods:
        nodes.add(pod.get("node", ""))
        for level, name in (pod.get("domains") or {}).items():
            used.setdefault(level, set()).update([name] if name else [])
    used["node"] = nodes
    return ", ".join(f"{level} {len(names)}" for level, names in used.items())
