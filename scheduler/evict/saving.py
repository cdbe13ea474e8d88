"""The checkpoint handshake: a gang is asked to save before it has to leave.

| step        | begins when                       | ends when                                    |
|-------------|-----------------------------------|----------------------------------------------|
| asked       | the eviction is decided; the time | the hook answers, or time is over. Before it |
|             | counts from when the hook is      | is being asked the eviction can be withdrawn |
|             | being asked                       |                                              |
| saving      | the hook says that it will save   | a checkpoint comes that answers the request, |
|             | and tell                          | or the same time is over                     |
| terminating | it has saved, or time is over     | the last pod has stopped                     |
"""

from dataclasses import replace

from scheduler.model.plan import Eviction, EvictStep, Fact, FactKind, JobRecord

HANDSHAKE = frozenset({FactKind.ASKED, FactKind.SAVING, FactKind.CHECKPOINT})
"""Facts about a request to save. A hook that refuses, or does not answer, makes none: the gang has
the time that it has, as its owner or the hook may still save."""


def asks_first(job: JobRecord) -> bool:
    """Whether a gang has a hook and anything to save: one that never ran has not."""
    return job.spec.grace_s is not None and job.started_s is not None


def request_id_of(job: JobRecord, revision: int) -> str:
    """Name of the request that an eviction decided on this revision makes; no other has it."""
    return f"{job.uid}-{revision}"


def step_after(leaving: Eviction, fact: Fact, grace_s: float | None, now_s: float) -> Eviction:
    """The eviction after a fact of `HANDSHAKE`; the same if that changes nothing.

    Args:
        grace_s: What time the gang has from being asked on; None counts as 0.
    """
    is_open = leaving.step in {EvictStep.ASKED, EvictStep.SAVING}
    if not is_open or fact.request_id != leaving.request_id:
        return leaving
    if fact.kind is FactKind.CHECKPOINT:
        return replace(leaving, step=EvictStep.TERMINATING, deadline_s=None)
    if leaving.asked_s is None:
        leaving = replace(leaving, asked_s=now_s, deadline_s=now_s + (grace_s or 0.0))
    return replace(leaving, step=EvictStep.SAVING) if fact.kind is FactKind.SAVING else leaving
