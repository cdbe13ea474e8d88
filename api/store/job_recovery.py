"""What faults and crashes have left of a job, in one column: for most jobs that is nothing."""

from dataclasses import dataclass, replace

from api.store.jsontext import dump_json, load_dict
from scheduler.model.plan import JobMove, JobRecord


@dataclass(frozen=True, slots=True)
class Recovery:
    """The fields of the core's `JobRecord` and `JobMove` of the same names."""

    hold_until_s: float | None = None
    crashes: int = 0
    not_before_s: float | None = None
    crash_streak: int = 0
    last_crash: str = ""
    goes_first: bool = False
    lost_since_s: float | None = None


NOTHING_LEFT = Recovery()


def recovery_of(job: JobRecord | JobMove) -> Recovery:
    """What a job has of it."""
    return Recovery(
        hold_until_s=job.hold_until_s,
        crashes=job.crashes,
        not_before_s=job.not_before_s,
        crash_streak=job.crash_streak,
        last_crash=job.last_crash,
        goes_first=job.goes_first,
        lost_since_s=job.lost_since_s,
    )


def dump_recovery(job: JobRecord | JobMove) -> str | None:
    """The column; None when there is nothing."""
    return dump_recovered(recovery_of(job))


def dump_recovered(found: Recovery) -> str | None:
    """The same of the fields alone."""
    if found == NOTHING_LEFT:
        return None
    return dump_json(
        {
            "hold_until_s": found.hold_until_s,
            "crashes": found.crashes,
            "not_before_s": found.not_before_s,
            "crash_streak": found.crash_streak,
            "last_crash": found.last_crash,
            "goes_first": found.goes_first,
            "lost_since_s": found.lost_since_s,
        }
    )


def load_recovery(text: str | None) -> Recovery:
    """What `dump_recovery` wrote."""
    if text is None:
        return NOTHING_LEFT
    found = load_dict(text)
    return Recovery(
        hold_until_s=_seconds(found["hold_until_s"]),
        crashes=int(str(found["crashes"])),
        not_before_s=_seconds(found["not_before_s"]),
        crash_streak=int(str(found["crash_streak"])),
        last_crash=str(found["last_crash"]),
        goes_first=bool(found["goes_first"]),
        lost_since_s=_seconds(found["lost_since_s"]),
    )


def with_recovery(job: JobRecord, text: str | None) -> JobRecord:
    """The job with what the column says."""
    if text is None:
        return job
    found = load_recovery(text)
    return replace(
        job,
        hold_until_s=found.hold_until_s,
        crashes=found.crashes,
        not_before_s=found.not_before_s,
        crash_streak=found.crash_streak,
        last_crash=found.last_crash,
        goes_first=found.goes_first,
        lost_since_s=found.lost_since_s,
    )


def _seconds(value: object) -> float | None:
    return None if value is None else float(str(value))
