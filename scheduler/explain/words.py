"""Changes as sentences."""

from collections.abc import Sequence

from scheduler.explain.answer import Change, ChangeKind, RuleChange
from scheduler.model.job import Mode
from scheduler.place.verdict import rule_words

NAMES_SHOWN = 4
"""Names in one sentence; the rest is a number."""


def change_words(change: Change) -> str:
    """What would have to be done, as a phrase without a time."""
    words = _WORDS[change.kind](change)
    if change.others_first:
        jobs = "1 job" if change.others_first == 1 else f"{change.others_first} jobs"
        words += f"; but {jobs} before it in line would take the room"
    return words


def _finish(change: Change) -> str:
    verb = "ends" if len(change.jobs) + change.hidden == 1 else "end"
    return f"when {_jobs(change)} {verb} ({_gpus(change)})"


def _uncordon(change: Change) -> str:
    names = [f"'{name}'" for name in change.nodes]
    return f"uncordon {listed(names, 'node')}"


def _both(change: Change) -> str:
    return f"{_uncordon(change)}, and {_finish(change)}"


def _preempt(change: Change) -> str:
    return f"preempt {_jobs(change)} ({_gpus(change)}), of lower priority"


def _relax(change: Change) -> str:
    return "; ".join(_one_rule(rules) for rules in change.rules)


def _one_rule(change: RuleChange) -> str:
    of = f" of role '{change.role}'" if change.role and change.before.group != change.role else ""
    if change.after.mode is Mode.PREFERRED:
        return f"make the rule '{rule_words(change.before)}'{of} preferred"
    return f"relax the rule '{rule_words(change.before)}'{of} to {change.after.within}"


def _shrink(change: Change) -> str:
    if change.role:
        return f"let role '{change.role}' start with min {change.size}"
    return f"shrink dp to {change.size}"


def _limit(change: Change) -> str:
    return "; ".join(
        f"raise the limit{f' of {r.model}' if r.model else ''} of queue '{r.queue}'"
        f" to {r.gpus} GPUs"
        for r in change.raises
    )


def _jobs(change: Change) -> str:
    names = [f"'{job.full_name}'" for job in change.jobs]
    jobs = "1 job" if change.hidden == 1 else f"{change.hidden} jobs"
    return listed(names, "job", f"{jobs} of other tenants" if change.hidden else "")


def _gpus(change: Change) -> str:
    return "1 GPU" if change.gpus == 1 else f"{change.gpus} GPUs"


def listed(names: Sequence[str], noun: str, last: str = "") -> str:
    """`'a', 'b' and 3 more jobs`, and `last` at the end."""
    parts = list(names)
    if len(parts) > NAMES_SHOWN:
        more = len(parts) - NAMES_SHOWN + 1
        parts = [*parts[: NAMES_SHOWN - 1], f"{more} more {noun}s"]
    if last:
        parts.append(last)
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


_WORDS = {
    ChangeKind.FINISH: _finish,
    ChangeKind.UNCORDON: _uncordon,
    ChangeKind.FINISH_AND_UNCORDON: _both,
    ChangeKind.RELAX: _relax,
    ChangeKind.SHRINK: _shrink,
    ChangeKind.PREEMPT: _preempt,
    ChangeKind.LIMIT: _limit,
}
