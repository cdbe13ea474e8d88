"""What a cycle read and decided, as lines of text: a word, a space, JSON.

Every field is written, defaults too, so that a past decision means the same when defaults change.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pydantic import TypeAdapter

from scheduler.model.claim import Claim, Window
from scheduler.model.ids import ClaimId, JobId, NodeId
from scheduler.model.job import JobSpec
from scheduler.model.node import Inventory, NodeRecord
from scheduler.model.plan import Fact, JobRecord, Plan, PodRecord
from scheduler.model.queue import QueueRecord
from scheduler.model.standing import NodeStanding

_MAP = TypeAdapter(Inventory)
_NODES = TypeAdapter(tuple[NodeRecord, ...])
_ASIDE = TypeAdapter(dict[str, str | None])
_STANDINGS = TypeAdapter(dict[NodeId, NodeStanding])
_JOB = TypeAdapter(JobRecord)
_JOBS = TypeAdapter(tuple[JobRecord, ...])
_PODS = TypeAdapter(tuple[PodRecord, ...])
_CLAIMS = TypeAdapter(tuple[Claim, ...])
_CLAIM_IDS = TypeAdapter(tuple[ClaimId, ...])
_WINDOWS = TypeAdapter(tuple[Window, ...])
_ENDED = TypeAdapter(dict[JobId, str])
_QUEUES = TypeAdapter(tuple[QueueRecord, ...])
_FACTS = TypeAdapter(tuple[Fact, ...])
_PLAN = TypeAdapter(Plan)

_SPEC_ALONE = {"__all__": {"spec"}}


def dump_map(inventory: Inventory) -> bytes:
    """An inventory without its nodes, which may be very many."""
    return _MAP.dump_json(replace(inventory, nodes=()))


def load_map(text: bytes, nodes: Sequence[NodeRecord]) -> Inventory:
    return replace(_MAP.validate_json(text), nodes=tuple(nodes))


def dump_nodes(nodes: Sequence[NodeRecord]) -> bytes:
    return _NODES.dump_json(tuple(nodes))


def load_nodes(text: bytes) -> tuple[NodeRecord, ...]:
    return _NODES.validate_json(text)


def load_aside(text: bytes) -> dict[str, str | None]:
    """Why nodes take no new pods, as logs before nodes had a standing have it; None = they do."""
    return _ASIDE.validate_json(text)


def dump_standings(standings: Mapping[NodeId, NodeStanding]) -> bytes:
    """How nodes stand, by name."""
    return _STANDINGS.dump_json(dict(standings))


def load_standings(text: bytes) -> dict[NodeId, NodeStanding]:
    return _STANDINGS.validate_json(text)


def dump_jobs(jobs: Sequence[JobRecord]) -> bytes:
    return _JOBS.dump_json(tuple(jobs))


def load_jobs(text: bytes) -> tuple[JobRecord, ...]:
    return _JOBS.validate_json(text)


def dump_standing(jobs: Sequence[JobRecord]) -> bytes:
    """Jobs without what their owners asked for, which is known already."""
    return _JOBS.dump_json(tuple(jobs), exclude=_SPEC_ALONE)


def load_standing(text: bytes, spec_of: Callable[[JobId], JobSpec]) -> tuple[JobRecord, ...]:
    """The same with what is known of them."""
    return tuple(
        _JOB.validate_python({**item, "spec": spec_of(JobId(item["uid"]))})
        for item in json.loads(text)
    )


def dump_pods(pods: Sequence[PodRecord]) -> bytes:
    return _PODS.dump_json(tuple(pods))


def load_pods(text: bytes) -> tuple[PodRecord, ...]:
    return _PODS.validate_json(text)


def dump_claims(claims: Sequence[Claim]) -> bytes:
    return _CLAIMS.dump_json(tuple(claims))


def load_claims(text: bytes) -> tuple[Claim, ...]:
    return _CLAIMS.validate_json(text)


def dump_claims_gone(uids: Sequence[ClaimId]) -> bytes:
    return _CLAIM_IDS.dump_json(tuple(uids))


def load_claims_gone(text: bytes) -> tuple[ClaimId, ...]:
    return _CLAIM_IDS.validate_json(text)


def dump_windows(windows: Sequence[Window]) -> bytes:
    """All maintenance windows there are."""
    return _WINDOWS.dump_json(tuple(windows))


def load_windows(text: bytes) -> tuple[Window, ...]:
    return _WINDOWS.validate_json(text)


def dump_queues(queues: Sequence[QueueRecord]) -> bytes:
    """All queues there are."""
    return _QUEUES.dump_json(tuple(queues))


def load_queues(text: bytes) -> tuple[QueueRecord, ...]:
    return _QUEUES.validate_json(text)


def dump_ended(queues: Mapping[JobId, str]) -> bytes:
    """Queues of jobs that ended and have live pods."""
    return _ENDED.dump_json(dict(queues))


def load_ended(text: bytes) -> dict[JobId, str]:
    return _ENDED.validate_json(text)


def dump_facts(facts: Sequence[Fact]) -> bytes:
    return _FACTS.dump_json(tuple(facts))


def load_facts(text: bytes) -> list[Fact]:
    return list(_FACTS.validate_json(text))


def dump_plan(plan: Plan) -> bytes:
    return _PLAN.dump_json(plan)


def load_plan(text: bytes) -> Plan:
    return _PLAN.validate_json(text)
