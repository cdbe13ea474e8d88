"""Who is told of a job, and of what."""

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from api.store.jsontext import dump_json
from scheduler.model.job import JobSpec

HookEvent: TypeAlias = Literal[
    "placement.bound", "checkpoint.requested", "job.evicting", "job.restarting", "job.finished"
]
REQUESTED: HookEvent = "checkpoint.requested"
NOTICES: tuple[HookEvent, ...] = (
    "placement.bound",
    "job.evicting",
    "job.restarting",
    "job.finished",
)
"""What is told to whoever wants to know; the request is for the checkpoint hook alone."""


def hooks_of(spec: JobSpec) -> str | None:
    """Who is told of a job, as its row has it: `[{url, events}]`; None if nobody is.

    The checkpoint hook comes first, with `grace_s`.
    """
    found: list[dict[str, object]] = []
    checkpoint, hooks = spec.extra.get("checkpoint"), spec.extra.get("hooks")
    if isinstance(checkpoint, Mapping) and checkpoint.get("hook"):
        events = [REQUESTED, *NOTICES]
        found.append({"url": checkpoint["hook"], "events": events, "grace_s": spec.grace_s})
    found += [
        {"url": hook["url"], "events": hook.get("events") or list(NOTICES)}
        for hook in (hooks if isinstance(hooks, Iterable) else ())
        if isinstance(hook, Mapping)
    ]
    return dump_json(found) if found else None
