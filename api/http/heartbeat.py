"""Heartbeats of the agents of nodes."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import Depends, Request

from api.http import heartbeat_examples as shown
from api.http import shapes
from api.http.answers import Json, answers, takes
from api.http.body import json_body
from api.http.echo import remember
from api.http.launch_env import waits
from api.http.launching import fence_after_s, launch_of
from api.http.routing import NamePath, Served, make_router
from api.http.service import Service
from api.schemas.heartbeat import HeartbeatAnswer, HeartbeatBody
from api.schemas.reading import InvalidFields
from api.store.hearing import Agent, Heard, Said, hear
from api.store.launches import Start, starts_of
from api.store.log_requests import LogRequest
from api.store.topology import load_topology
from api.store.views import PodView
from scheduler.errors import Problem
from scheduler.model.lifecycle import PodState
from scheduler.model.resources import indices_of

NEXT_S = 10.0
"""Between heartbeats of a node whose pods all run, at most; and at least three of them have to be
missed before it is suspect, or a guard ends a pod."""

NEXT_SOON_S = 1.0
"""While pods of the node have yet to start, or somebody reads their logs."""

router = make_router("nodes")


@router.post(
    "/v1/nodes/{name}/heartbeat",
    summary="Hear the agent of a node",
    responses=answers(
        HeartbeatAnswer, shown.ANSWER, 400, 404, 409, 413, 415, 422, says="What is to run there."
    ),
    openapi_extra=takes(HeartbeatBody, shown.BODIES),
)
def heartbeat(
    service: Served,
    request: Request,
    name: NamePath,
    body: Annotated[HeartbeatBody, Depends(json_body(HeartbeatBody))],
) -> Json:
    """Take a sign of life; what is news of pods becomes a report, all else makes no revision.

    One whose `acted_on` is not the node's revision may be late: it does not bring back a lost node,
    nor begin a session after another. The answer tells the revision, and the next heartbeat does.

    409 for a session when a later one speaks for the node: its agent ends and stops nothing.
    """
    said = _said(body)
    agent = Agent(name, body.session, body.boot_id, body.passed, body.acted_on)
    heard = hear(service.leases, agent, said, now_s=service.clock.now_s())
    answer = Json(_answer(service, heard, said))
    if _says_nothing_new(heard, said):
        remember(request, agent, answer, heard)
    return answer


def _answer(service: Service, heard: Heard, said: Sequence[Said]) -> shapes.Shape:
    """As `schemas.heartbeat.HeartbeatAnswer` describes it."""
    told = {word.run for word in said}
    # One that has run already is not started a second time under the same attempt.
    fresh = [
        pod
        for pod in heard.desired
        if heard.speaks and pod.state is PodState.BOUND and (pod.uid, pod.attempt) not in told
    ]
    starts = starts_of(service.database, (pod.job_uid for pod in fresh)) if fresh else {}
    topology = load_topology(service.database).topology if fresh else None
    launcher = service.settings.launcher

    def launch(pod: PodView, start: Start | None) -> shapes.Shape | None:
        if start is None or pod not in fresh:
            return None
        return launch_of(pod, start, topology, launcher, heard.policy)

    # One that waits for others of its gang is not there yet for its agent.
    due = [pod for pod in heard.desired if pod not in fresh or not waits(pod, starts[pod.job_uid])]
    return {
        "desired": [_desired(pod, launch(pod, starts.get(pod.job_uid))) for pod in due],
        "stopping": [{"uid": uid, "attempt": attempt} for uid, attempt in heard.stopping],
        "ignored": [_ignored(word, why) for word, why in heard.ignored],
        "logs": [_wanted(log) for log in heard.logs],
        "health": heard.health,
        "epoch": heard.epoch,
        "node_revision": heard.node_revision,
        "next_s": _next_s(heard),
        "fence_after_s": fence_after_s(heard.policy.lost_after_s),
    }


def _said(body: HeartbeatBody) -> list[Said]:
    """What was said of each pod.

    Raises:
        InvalidFields: If one is named twice.
    """
    said = [Said(p.uid, p.attempt, PodState(p.state), p.exit_code) for p in body.pods]
    runs = set()
    for index, word in enumerate(said):
        if word.run in runs:
            problem = f"attempt {word.attempt} of pod '{word.uid[:80]}' is named twice"
            raise InvalidFields(Problem(f"pods[{index}]", problem))
        runs.add(word.run)
    return said


def _says_nothing_new(heard: Heard, said: Sequence[Said]) -> bool:
    """Whether the same words would be answered the same for as long as nothing else changes."""
    if heard.ignored or heard.stopping or heard.is_read or heard.late:
        return False
    running = {(pod.uid, pod.attempt) for pod in heard.desired if pod.state is PodState.RUNNING}
    is_all = len(running) == len(heard.desired) == len(said)
    return is_all and all(w.state is PodState.RUNNING and w.run in running for w in said)


def _next_s(heard: Heard) -> float:
    is_due = any(pod.state is not PodState.RUNNING for pod in heard.desired)
    if is_due or heard.stopping or heard.is_read or heard.is_asked_again:
        return NEXT_SOON_S
    policy = heard.policy
    return min(NEXT_S, policy.suspect_after_s / 3, fence_after_s(policy.lost_after_s) / 3)


def _ignored(word: Said, why: str) -> shapes.Shape:
    return {"uid": word.uid, "attempt": word.attempt, "message": why}


def _wanted(log: LogRequest) -> shapes.Shape:
    """As `schemas.heartbeat.WantedLog` describes it."""
    return {
        "id": log.id,
        "uid": log.pod_uid,
        "attempt": log.attempt,
        "process": log.process,
        "stream": log.stream,
        "tail_bytes": log.tail_bytes,
    }


def _desired(pod: PodView, launch: shapes.Shape | None) -> shapes.Shape:
    """As `schemas.heartbeat.DesiredPod` describes it."""
    return {
        "uid": pod.uid,
        "attempt": pod.attempt,
        "namespace": pod.namespace,
        "job": f"{pod.namespace}/{pod.job}",
        "name": pod.name,
        "role": pod.role or shapes.RANK_ROLE,
        "index": pod.index,
        "gpus": indices_of(pod.gpu_mask),
        "launch": launch,
    }
