"""Jobs as values."""

from dataclasses import fields, replace

import pytest

from scheduler.model.ids import JobId
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import JobState
from scheduler.model.plan import JobRecord, job_with

JOB = JobRecord(JobId("a"), JobSpec(name="a"), JobState.RUNNING, 7, message="x", crashes=2)


def test_a_job_with_changes_is_what_replace_makes_of_it() -> None:
    changes: dict[str, object] = {"state": JobState.RECOVERING, "hold_until_s": 5.0, "message": ""}
    assert job_with(JOB, changes) == replace(JOB, **changes)  # type: ignore[arg-type]  # by name
    assert job_with(JOB, {}) == JOB
    assert all(getattr(job_with(JOB, {}), f.name) == getattr(JOB, f.name) for f in fields(JOB))


def test_a_field_that_a_job_has_not_cannot_be_changed() -> None:
    with pytest.raises(KeyError):
        job_with(JOB, {"colour": "red"})
