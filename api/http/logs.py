"""Logs of pods: asked for by people, sent by the agents of their nodes.

An agent is told with its next heartbeat, so an answer takes up to the time between two of them.
"""

import asyncio
import time
from typing import Annotated

from fastapi import Depends, Path, Query
from starlette.concurrency import run_in_threadpool

from api.http.answers import Json, answers, takes
from api.http.body import json_body
from api.http.routing import NamePath, Served, make_router
from api.http.service import Service
from api.schemas.log import TAIL_BYTES_MAX, LogBody, LogTaken, PodLog, StreamName
from api.store.errors import Conflict
from api.store.log_requests import (
    ANSWER_S,
    LogAnswer,
    LogRequest,
    Wanted,
    answer,
    answer_of,
    ask,
    forget,
    leave,
    not_yet,
)

WAIT_S_MAX = 60.0
LOOK_S = 0.2
"""Between looks whether the agent has answered."""

TAIL_BYTES = 64 * 1024

LOG: dict[str, object] = {
    "pod": "llama-70b-0",
    "node": "n001",
    "attempt": 1,
    "state": "running",
    "process": 0,
    "stream": "out",
    "text": "step 1000 loss 2.31\nstep 1010 loss 2.29\n",
}
BODIES: dict[str, object] = {
    "the end of a log": {"content": "c3RlcCAxMDAwIGxvc3MgMi4zMQo="},
    "nothing there": {"problem": "the folder of the pod is gone"},
}

router = make_router("pods")

Process = Annotated[int, Query(ge=0, le=1_000, description="Local rank of the process.")]
Stream = Annotated[StreamName, Query(description="`out` or `err`.")]
TailBytes = Annotated[int, Query(ge=1, le=TAIL_BYTES_MAX, description="How much, at most.")]
Attempt = Annotated[
    int | None, Query(ge=1, le=2**31 - 1, description="An earlier life of the pod.")
]
Wait = Annotated[float, Query(gt=0, le=WAIT_S_MAX, description="Longest time for the agent.")]
RequestId = Annotated[int, Path(ge=1, le=2**63 - 1)]


@router.get(
    "/v1/namespaces/{namespace}/pods/{name}/logs",
    summary="Read the end of a pod's log",
    responses=answers(PodLog, LOG, 404, 409, 422, says="The end of one log."),
)
async def read_log(
    service: Served,
    namespace: NamePath,
    name: NamePath,
    process: Process = 0,
    stream: Stream = "out",
    tail_bytes: TailBytes = TAIL_BYTES,
    attempt: Attempt = None,
    wait_s: Wait = ANSWER_S,
) -> Json:
    """What one process of a pod wrote last, from its agent; 409 where there is none that answers.

    An agent hears of it with its next heartbeat. If it has not answered in time, ask the same again
    within 15 s: it is still asked. Logs of pods that have ended are there as long as their agent
    keeps them.
    """
    wanted = Wanted(process, stream, tail_bytes, attempt)
    now_s = service.clock.now_s()
    database = service.database
    request, state = await run_in_threadpool(ask, database, namespace, name, wanted, now_s=now_s)
    ended = leave
    try:
        found = await _wait(service, request, wait_s)
        ended = forget
    finally:
        await run_in_threadpool(ended, database, request.id, service.clock.now_s())
    if found.problem:
        raise Conflict("process", f"node '{request.node}': {found.problem}")
    return Json(
        {
            "pod": name,
            "node": request.node,
            "attempt": request.attempt,
            "state": state,
            "process": process,
            "stream": stream,
            "text": found.content.decode("utf-8", errors="replace"),
        }
    )


async def _wait(service: Service, request: LogRequest, wait_s: float) -> LogAnswer:
    """What the agent sends.

    Raises:
        Conflict: If it does not in time.
    """
    until = time.monotonic() + wait_s
    while (left_s := until - time.monotonic()) > 0:
        found = await run_in_threadpool(answer_of, service.database, request.id)
        if found is not None:
            return found
        await asyncio.sleep(min(LOOK_S, left_s))
    raise Conflict("node", not_yet(request, wait_s))


@router.post(
    "/v1/nodes/{name}/logs/{id}",
    summary="Send what was asked of a log",
    responses=answers(
        LogTaken, {"id": 4711, "bytes": 23}, 400, 404, 413, 415, 422, says="It is passed on."
    ),
    openapi_extra=takes(LogBody, BODIES),
)
def send_log(
    service: Served,
    name: NamePath,
    id: RequestId,
    body: Annotated[LogBody, Depends(json_body(LogBody))],
) -> Json:
    """For agents: the answer to one of the `logs` of a heartbeat's answer; 404 when it is late."""
    content = body.content[-TAIL_BYTES_MAX:]
    answer(service.database, name, id, content, body.problem, service.clock.now_s())
    return Json({"id": id, "bytes": len(content)})
