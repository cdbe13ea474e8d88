"""`POST /v1/whatif`: jobs and changes on a copy of the cluster; nothing is written."""

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Annotated

from fastapi import Depends

from api.auth import Caller, Right, check
from api.http import example_whatif, shapes
from api.http.answers import Json, answers, takes
from api.http.body import YAML_TYPES, json_or_yaml_body
from api.http.explaining import may_see
from api.http.routing import Called, Served, make_router
from api.http.service import Service
from api.http.supposing import Sees, supposed
from api.schemas.whatif import WhatIf, WhatIfBody
from api.store.inventory import find_node_type
from api.store.policy import load_policy
from scheduler.cluster.world import World
from scheduler.cycle import run_cycle
from scheduler.errors import JobError, Problem
from scheduler.explain.whatif import (
    Consequences,
    Outcome,
    Standing,
    gpus_of,
    play,
    standing,
    suppose,
)
from scheduler.model.job import MAX_RANKS, JobSpec
from scheduler.model.plan import JobRecord, Plan, PodRecord
from scheduler.place.verdict import never
from scheduler.policy import Policy

router = make_router("cluster")

AFFECTED_MAX = 500
"""Jobs listed in an answer; there may be ten thousand."""

NAMES_SHOWN = 8
"""Domains of a level that are named."""

WAIT_S = 10.0
"""Longest wait for another what-if: each takes a core for about a second."""

WAITERS_MAX = 4
"""What-ifs that wait for their turn; each holds one of the threads that serve everybody."""

_ONE = threading.Lock()
_FEW = threading.BoundedSemaphore(WAITERS_MAX + 1)


@router.post(
    "/v1/whatif",
    summary="What would happen if",
    responses=answers(
        WhatIf, example_whatif.ANSWER, 400, 413, 415, 422, says="What would become of the jobs."
    ),
    openapi_extra=takes(WhatIfBody, example_whatif.BODIES, also=YAML_TYPES[:1]),
)
def what_if(
    service: Served,
    caller: Called,
    body: Annotated[WhatIfBody, Depends(json_or_yaml_body(WhatIfBody))],
) -> Json:
    """Submit jobs to a copy of the cluster and change it, and let the scheduler decide.

    The real engine decides cycle after cycle until the copy comes to rest. Time stands still, and
    pods that are told to stop do so at once. Nothing is written, and nobody is told.
    """
    specs = _checked(service, caller, body)
    with turn():
        return Json(answer(service, caller, body, specs))


@contextmanager
def turn() -> Iterator[None]:
    """One at a time; few wait, and not for long. Raises TimeoutError."""
    if not _FEW.acquire(blocking=False):
        raise TimeoutError(f"{WAITERS_MAX} what-ifs wait already; try again")
    try:
        if not _ONE.acquire(timeout=WAIT_S):
            raise TimeoutError("another what-if is being worked out; try again")
        try:
            yield
        finally:
            _ONE.release()
    finally:
        _FEW.release()


def answer(
    service: Service, caller: Caller, body: WhatIfBody, specs: Sequence[JobSpec]
) -> shapes.Shape:
    """What would happen, as `schemas.whatif.WhatIf` describes it."""
    see = may_see(caller)
    find_type = partial(find_node_type, service.database)
    now_s = service.clock.now_s()

    def copied(world: World) -> tuple[Standing, World]:
        """A copy with the changes: the world itself is used by others meanwhile."""
        wanted = supposed(world, body, specs, Sees(see, caller.namespaces), find_type)
        return standing(world), suppose(world, wanted, now_s)

    before, changed = service.reader.ask(copied)
    decide = partial(_decide, load_policy(service.database))
    found = play(before, changed, len(specs), decide, now_s)
    seen = [(o, o.before) for o in found.others if o.before is not None and see(o.before)]
    return {
        "revision": before.revision,
        "cycles": found.cycles,
        "settled": found.settled,
        "jobs": [_job(found, outcome) for outcome in found.jobs],
        "effects": dict(sorted(Counter(o.effect for o in found.others).items())),
        "affected": [effect(found, *one) for one in seen[:AFFECTED_MAX]],
        "hidden": len(found.others) - len(seen),
        "gpus_before": asdict(before.gpus),
        "gpus_after": asdict(gpus_of(found.world)),
    }


def _checked(service: Service, caller: Caller, body: WhatIfBody) -> list[JobSpec]:
    """The jobs of a body as the door sees them, whether or not they ever fit. Raises JobError."""
    specs: list[JobSpec] = []
    problems: list[Problem] = []
    for number, job in enumerate(body.jobs):
        check(caller, Right.READ, namespace=job.namespace)
        try:
            specs.append(service.door.check(job, caller.namespaces).spec)
        except JobError as error:
            at = f"jobs[{number}]"
            problems += [
                Problem(f"{at}.{p.path}" if p.path else at, p.message) for p in error.problems
            ]
    ranks = sum(role.replicas * max(role.gpus, 1) for spec in specs for role in spec.roles)
    ranks += sum(spec.parallelism.world for spec in specs if spec.parallelism is not None)
    if ranks > MAX_RANKS:
        problems.append(
            Problem("jobs", f"found {ranks} ranks in all; at most {MAX_RANKS} are allowed")
        )
    if problems:
        raise JobError(problems)
    return specs


def _decide(policy: Policy, world: World, now_s: float) -> Plan:
    return run_cycle(world, policy, now_s)


def _job(found: Consequences, outcome: Outcome) -> shapes.Shape:
    record = outcome.after
    if record is None:
        raise LookupError("a job that was supposed has ended")
    return {
        "job": f"{record.spec.namespace}/{record.spec.name}",
        "state": record.state,
        "reason": record.reason,
        "message": record.message,
        "never": never(record.message),
        "expected_start": shapes.time_or_none(record.expected_start_s),
        "placement": _place(found.world, outcome.pods, record.node_type),
    }


def effect(found: Consequences, outcome: Outcome, before: JobRecord) -> shapes.Shape:
    """What becomes of a job that is there, as `schemas.whatif.WhatIfEffect` describes it."""
    record = outcome.after
    return {
        "job": f"{before.spec.namespace}/{before.spec.name}",
        "effect": outcome.effect,
        "state": None if record is None else record.state,
        "reason": None if record is None else record.reason,
        "message": "" if record is None else record.message,
        "gpus": sum(pod.gpu_mask.bit_count() for pod in outcome.had),
        "placement": None
        if record is None
        else _place(found.world, outcome.pods, record.node_type),
    }


def _place(world: World, pods: Sequence[PodRecord], node_type: str) -> shapes.Shape | None:
    """Where pods are, in a few numbers and names."""
    if not pods:
        return None
    topology = world.topology
    nodes = sorted({topology.node_index[p.node] for p in pods if p.node in topology.node_index})
    domains = {}
    for depth, level in enumerate(topology.levels):
        found = dict.fromkeys(topology.place[depth][node] for node in nodes)
        names = [level.names[d] for d in found if level.names[d]]
        domains[level.name] = {"count": len(names), "names": names[:NAMES_SHOWN]}
    return {
        "pods": len(pods),
        "gpus": sum(pod.gpu_mask.bit_count() for pod in pods),
        "node_type": node_type or None,
        "domains": domains,
    }
