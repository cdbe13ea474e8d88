"""Why a job is not placed, as the API shows it."""

from collections.abc import Mapping
from dataclasses import asdict

from api.http.shapes import Shape
from api.store.views import JobView
from scheduler.model.lifecycle import FINAL, JobState
from scheduler.model.placement import NoFit

NOT_PLACED = frozenset({JobState.PENDING, JobState.RESERVED, JobState.SUSPENDED})
"""States in which a job has no pods."""


def explain(job: JobView) -> Shape:
    """What is known of why a job waits; that it does not, if so."""
    if job.state in FINAL:
        return _answer(fits=True, message=f"the job has {_ENDED[job.state]}; nothing waits")
    if job.state not in NOT_PLACED:
        return _answer(fits=True, message=f"the job is {job.state}, in its place")
    if job.verdict is not None:
        return _from_stored(job, job.verdict)
    message = job.message or "the job has not been looked at yet"
    return _answer(fits=False, message=message) | {"code": job.reason, "wanted": job.minimum}


_ENDED = {
    JobState.SUCCEEDED: "succeeded",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "been cancelled",
}


def no_fit(verdict: NoFit) -> Shape:
    """The answer of a dry run that found no place."""
    return _from_values(asdict(verdict))


def fits() -> Shape:
    """The answer of a dry run that found one."""
    return _answer(fits=True, message="fits now")


def _from_stored(job: JobView, verdict: Mapping[str, object]) -> Shape:
    shown = _from_values(verdict)
    # The stage that keeps it waiting may be another than the one that looked for a place.
    if job.reason is not None:
        shown["code"] = job.reason
    return shown | {"message": job.message or shown["message"]}


def _from_values(verdict: Mapping[str, object]) -> Shape:
    nearest = verdict.get("nearest")
    return _answer(fits=False, message=str(verdict["message"])) | {
        "when": "never" if verdict["never"] else "not_now",
        "code": verdict["code"],
        "rule": verdict.get("rule"),
        "nearest": _nearest(nearest) if isinstance(nearest, Mapping) else None,
        "set_aside": verdict.get("set_aside") or {},
        "fitting": verdict.get("fitting", 0),
        "wanted": verdict.get("wanted", 0),
        "search": verdict.get("search", "exact"),
    }


def _nearest(nearest: Mapping[str, object]) -> Shape:
    return {
        "level": nearest["level"],
        "domain": nearest["domain"],
        "lacks": {"nodes": nearest["lacks_nodes"], "gpus": nearest["lacks_gpus"]},
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
        "fitting": 0,
        "wanted": 0,
        "search": "exact",
    }
