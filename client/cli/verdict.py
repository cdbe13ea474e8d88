"""Why a job has no place, or that it has one, in a few lines of plain text."""

from collections.abc import Iterator, Mapping, Sequence

from client.cli.text import age, count, duration, now_s, unix_s
from client.shapes import Change, Holder, Nearest, Pod, Rule, RuleChange, Verdict

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


def without_aside(message: str) -> str:
    """A message without the nodes set aside at its end, where they are shown beside it."""
    return message.partition(" (nodes set aside: ")[0]


def verdict_pairs(verdict: Verdict) -> Iterator[tuple[str, object]]:
    """All that is known beyond the message, in short; nothing for what is not known."""
    yield from fact_pairs(verdict, with_aside=True)
    if holders := verdict.get("holders"):
        yield "Held by", [holder_text(holder) for holder in holders]
    if changes := verdict.get("changes"):
        yield "Would help", [change_text(change) for change in changes]


def fact_pairs(verdict: Verdict, *, with_aside: bool) -> Iterator[tuple[str, object]]:
    """The same without holders and changes, as names and values."""
    if rule := verdict.get("rule"):
        yield "Rule", rule_text(rule)
    if nearest := verdict.get("nearest"):
        yield "Nearest", nearest_text(nearest)
    if wanted := verdict.get("wanted"):
        yield "Fit now", f"{verdict.get('fitting', 0)} of {count(wanted, 'pod')}"
    if with_aside and (aside := verdict.get("set_aside")):
        yield "Nodes set aside", set_aside_text(aside)
    if start := verdict.get("expected_start"):
        yield "Expected start", _time_text(start)
    if domains := verdict.get("domains"):
        yield "Domains used", ", ".join(f"{level} {number}" for level, number in domains.items())
    if broken := verdict.get("rules_broken"):
        yield "Rules broken", ", ".join(f"{r.get('group')}:{r.get('within')}" for r in broken)
    if verdict.get("search") == "bounded":
        yield "Search", "cut short; a place may have been missed"
    if verdict.get("changes_bounded"):
        yield "Changes", "the search for them was cut short; there may be cheaper ones"


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


def holder_text(holder: Holder) -> str:
    """`default/small-7: 32 GPUs until ...`; jobs of others, and those past the list, as numbers."""
    end = holder.get("expected_end")
    until = f" until {_time_text(end)}" if end else ""
    who = str(holder.get("job"))
    if hidden := holder.get("hidden"):
        who = f"{count(hidden, 'job')} of other tenants"
    elif more := holder.get("more"):
        who = f"{count(more, 'more job')}"
    return f"{who}: {count(holder.get('gpus', 0), 'GPU')}{until}"


def change_text(change: Change) -> str:
    """What would help, and when it is to be expected."""
    message = change.get("message")
    if not message:
        known = (str(value) for key, value in change.items() if key != "verified")
        message = " ".join(known)
    end = change.get("expected_end")
    when = f", {_time_text(end)}" if end else ""
    return f"{message}{when}" + ("" if change.get("verified") else " (not verified)")


def commands_of(change: Change, job: str) -> Iterator[str]:
    """What to type, or to write into the job's file, for a change."""
    if nodes := change.get("nodes"):
        yield f"yardctl uncordon {' '.join(nodes)}"
    if change.get("kind") == "preempt" and not change.get("hidden"):
        yield f"yardctl requeue {' '.join(change.get('jobs') or [])}"
    for queue in change.get("queues") or []:
        model, gpus = queue.get("model"), queue.get("limit_gpus")
        limit = f"--limit-of {model}={gpus}" if model else f"--limit {gpus}"
        yield f"yardctl queue set {queue.get('queue')} {limit}"
    if dp := change.get("dp"):
        yield f"in the file of {job}: parallelism: {{dp: {dp}}}"
    if least := change.get("min"):
        yield f"in the file of {job}: roles: [{{name: {change.get('role')}, min: {least}}}]"
    for rules in change.get("rules") or []:
        yield f"in the file of {job}: {_rule_yaml(rules)}"


def _rule_yaml(change: RuleChange) -> str:
    after = change.get("after") or {}
    group = after.get("group")
    named = f"group: {group}, " if group else ""
    rule = f"{{{named}within: {after.get('within')}, mode: {after.get('mode')}}}"
    role = change.get("role")
    if not role:
        return f"topology: [{rule}]"
    at = f"topology: [{rule}]" if group else f"parts: {{topology: [{rule}]}}"
    return f"roles: [{{name: {role}, {at}}}]"


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
