"""Why a job is not placed, or that it is, as the API shows it."""

from collections.abc import Mapping, Sequence

from api.http.shapes import Shape, time_or_none
from api.store.views import JobView, PodView
from scheduler.explain.answer import Answer, Change, ChangeKind, Holder, RuleChange
from scheduler.explain.words import change_words
from scheduler.model.job import Rule
from scheduler.model.lifecycle import JobState
from scheduler.model.placement import NoFit, Placement
from scheduler.model.plan import JobRecord, PodRecord
from scheduler.topology.tree import Topology

NOT_PLACED = frozenset({JobState.PENDING, JobState.RESERVED, JobState.SUSPENDED})
"""States in which a job has no pods."""

_ENDED = {
    JobState.SUCCEEDED: "succeeded",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "been cancelled",
}

NAMES_SHOWN = 3
"""Domains of a level that a sentence names."""


def ended(job: JobView) -> Shape:
    """The answer on a job that waits for nothing any more."""
    told = f": {job.message}" if job.message else ""
    return _answer(fits=True, message=f"the job has {_ENDED[job.state]}; nothing waits{told}")


def placed(job: JobView, pods: Sequence[PodView], topology: Topology) -> Shape:
    """The answer on a job in its place: where that is, which rules hold there and which do not."""
    names = _domain_names(pods, topology)
    where = ", ".join(_named(level, found) for level, found in names.items())
    nodes = len({pod.node for pod in pods})
    is_leaving = job.state is JobState.EVICTING
    where_now = "still in its place" if is_leaving else "in its place"
    message = f"the job is {job.state}, {where_now}: {_count(len(pods), 'pod')} on "
    message += _count(nodes, "node") + (f" in {where}" if where else "")
    stated = (
        *job.spec.rules,
        *(rule for role in job.spec.roles for rule in role.rules),
    )
    if kept := [rule for rule in stated if rule not in job.broken]:
        message += f"; what holds: {', '.join(map(_rule_text, kept))}"
    if job.broken:
        message += f"; what does not hold: {', '.join(map(_rule_text, job.broken))}"
    said = job.message or ("" if job.evict is None else job.evict.why)
    if said:
        message += f"; {said}"
    return _answer(fits=True, message=message) | {
        "search": job.search or "exact",
        "domains": {level: len(found) for level, found in names.items()} | {"node": nodes},
        "rules_broken": [{"group": r.group, "within": r.within} for r in job.broken],
    }


def was_placed(at: str, job: JobRecord, pods: Sequence[PodRecord], topology: Topology) -> Shape:
    """The same of a job in its place at a moment of the past, `at` in words."""
    nodes = sorted({pod.node for pod in pods})
    message = f"{at} the job was {job.state}: {_count(len(pods), 'pod')} on "
    message += _count(len(nodes), "node")
    if job.message:
        message += f"; {job.message}"
    levels = {
        level.name: {topology.place[depth][topology.node_index[n]] for n in nodes}
        for depth, level in enumerate(topology.levels)
        if all(n in topology.node_index for n in nodes)
    }
    return _answer(fits=True, message=message) | {
        "domains": {level: len(found) for level, found in levels.items()},
        "rules_broken": [{"group": r.group, "within": r.within} for r in job.broken],
    }


def was_waiting(at: str, job: JobRecord) -> Shape:
    """What a cycle of the past had left with a job that waited."""
    said = job.message or f"the job was {job.state}" + (", and held" if job.held else "")
    return _answer(fits=False, message=f"{at}: {said}") | {
        "code": job.reason,
        "expected_start": time_or_none(job.expected_start_s),
    }


def stored(job: JobView, expected_start_s: float | None = None) -> Shape:
    """What the last cycle left with a job that waits."""
    start = {"expected_start": time_or_none(expected_start_s)}
    if job.verdict is not None:
        return _from_stored(job, job.verdict) | start
    message = job.message or _waits_for(job)
    return (
        _answer(fits=False, message=message) | {"code": job.reason, "wanted": job.minimum} | start
    )


def _waits_for(job: JobView) -> str:
    """What a job waits for that no cycle has said anything of."""
    if job.state is JobState.SUSPENDED:
        return "the job is suspended; it waits to be resumed"
    if job.held:
        return "the job is held; it waits to be released"
    return "the job has not been looked at yet"


def answered(answer: Answer) -> Shape:
    """The full answer on a gang that does not fit."""
    return _from_verdict(answer.verdict) | {
        "holders": [_holder(holder) for holder in answer.holders],
        "expected_start": time_or_none(answer.expected_start_s),
        "changes": [_change(change) for change in answer.changes],
        "changes_bounded": answer.bounded,
        "ahead": answer.ahead,
    }


def fits_now(found: Placement | None = None, message: str = "fits now") -> Shape:
    """The answer on a gang for which there is room."""
    search = "exact" if found is None else found.search
    return _answer(fits=True, message=message) | {"search": search}


def _domain_names(pods: Sequence[PodView], topology: Topology) -> dict[str, list[str]]:
    """Names of the domains that pods are in, by level, innermost first, without the nodes."""
    index = topology.node_index
    nodes = sorted({index[pod.node] for pod in pods if pod.node in index})
    found: dict[str, list[str]] = {}
    for depth in range(len(topology.levels) - 2, -1, -1):
        level = topology.levels[depth]
        domains = dict.fromkeys(topology.place[depth][node] for node in nodes)
        if names := [level.names[d] for d in domains if level.names[d]]:
            found[level.name] = names
    return found


def _named(level: str, names: Sequence[str]) -> str:
    if len(names) > NAMES_SHOWN:
        return f"{len(names)} domains of level {level}"
    return f"{level} " + ", ".join(f"'{name}'" for name in names)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _rule_text(rule: Rule) -> str:
    return f"{rule.group or 'each part'} within {rule.within}, {rule.mode}"


def _from_stored(job: JobView, verdict: Mapping[str, object]) -> Shape:
    nearest = verdict.get("nearest")
    shown = _answer(fits=False, message=job.message or str(verdict["message"])) | {
        "when": "never" if verdict["never"] else "not_now",
        # The stage that keeps it waiting may be another than the one that looked for a place.
        "code": job.reason or verdict["code"],
        "rule": verdict.get("rule"),
        "set_aside": verdict.get("set_aside") or {},
        "fitting": verdict.get("fitting", 0),
        "wanted": verdict.get("wanted", 0),
        "search": verdict.get("search", "exact"),
    }
    if isinstance(nearest, Mapping):
        shown["nearest"] = _nearest(
            str(nearest["level"]),
            str(nearest["domain"]),
            nearest["lacks_nodes"],
            nearest["lacks_gpus"],
        )
    return shown


def _from_verdict(verdict: NoFit) -> Shape:
    nearest = verdict.nearest
    return _answer(fits=False, message=verdict.message) | {
        "when": "never" if verdict.never else "not_now",
        "code": verdict.code,
        "rule": None if verdict.rule is None else _rule(verdict.rule),
        "nearest": None
        if nearest is None
        else _nearest(nearest.level, nearest.domain, nearest.lacks_nodes, nearest.lacks_gpus),
        "set_aside": dict(verdict.set_aside),
        "fitting": verdict.fitting,
        "wanted": verdict.wanted,
        "search": verdict.search,
    }


def _nearest(level: str, domain: str, nodes: object, gpus: object) -> Shape:
    return {"level": level, "domain": domain, "lacks": {"nodes": nodes, "gpus": gpus}}


def _rule(rule: Rule) -> Shape:
    return {"group": rule.group, "within": rule.within, "mode": rule.mode}


def _holder(holder: Holder) -> Shape:
    return {
        "job": None if holder.job is None else holder.job.full_name,
        "gpus": holder.gpus,
        "expected_end": time_or_none(holder.ends_s),
        "hidden": holder.jobs if holder.is_hidden else 0,
        "more": holder.jobs if holder.job is None and not holder.is_hidden else 0,
    }


def _change(change: Change) -> Shape:
    """A change with the fields that its kind has."""
    shown: Shape = {"kind": change.kind, "message": change_words(change), "verified": True}
    if change.jobs or change.hidden:
        names = [job.full_name for job in change.jobs]
        shown |= {
            "job": names[0] if len(names) == 1 and not change.hidden else None,
            "jobs": names,
            "hidden": change.hidden,
            "gpus": change.gpus,
            "expected_end": time_or_none(change.ends_s),
        }
    if change.nodes:
        shown["nodes"] = list(change.nodes)
    if change.rules:
        shown["rules"] = [_rule_change(rules) for rules in change.rules]
    if change.kind is ChangeKind.SHRINK:
        shown |= {"role": change.role, "min": change.size} if change.role else {"dp": change.size}
    if change.others_first:
        shown["others_first"] = change.others_first
    if change.raises:
        shown["queues"] = [
            {"queue": r.queue, "limit_gpus": r.gpus, "model": r.model or None}
            for r in change.raises
        ]
    return shown


def _rule_change(rules: RuleChange) -> Shape:
    return {
        "role": rules.role or None,
        "before": _rule(rules.before),
        "after": _rule(rules.after),
    }


def _answer(*, fits: bool, message: str) -> Shape:
    return {
        "fits": fits,
        "when": "now" if fits else "not_now",
        "code": None,
        "rule": None,
        "message": message,
        "nearest": None,
        "set_aside": {},
        "holders": [],
        "expected_start": None,
        "changes": [],
        "changes_bounded": False,
        "ahead": 0,
        "fitting": 0,
        "wanted": 0,
        "search": "exact",
        "domains": {},
        "rules_broken": [],
    }
