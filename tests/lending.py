"""Who may be on what is kept for another: for checks that share no code with the service."""

import json
from collections.abc import Mapping
from typing import Any

KEPT = frozenset({"preemption", "recovery", "spare", "pool"})
"""Claims on what is taken as soon as it is free."""

LENT = frozenset({"spare", "pool"})
"""Those of them that others may use until it is needed."""


def may_be_on(job: Mapping[str, Any], claim: Mapping[str, Any]) -> bool:
    """Whether pods of the job may be on GPUs of a claim of another.

    Args:
        job: A row of `jobs`.
        claim: A row of `claims`.
    """
    if claim["why"] not in KEPT or job["evict"] is not None:
        return True
    return claim["why"] in LENT and _leaves_at_once(job)


def _leaves_at_once(job: Mapping[str, Any]) -> bool:
    spec = json.loads(job["spec"])
    return bool(spec.get("preemptible", True)) and spec.get("grace_s") is None
