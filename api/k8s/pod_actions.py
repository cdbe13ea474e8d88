"""What is asked of one pod: a report of its node, its log, a node for it."""

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from api.auth import ANYBODY
from api.auth.seen import may_report
from api.k8s.errors import Cause, StatusError, bad_request, conflict, invalid
from api.k8s.jobs import KIND as JOB
from api.k8s.kinds import Call, Obj, name_of, namespace_of
from api.k8s.pod_shape import JOB_KEY, KIND
from api.store.engine import Transaction
from api.store.job_changes import JobChange, change_in
from api.store.job_rows import job_view, newest_job
from api.store.log_requests import (
    ANSWER_S,
    LogAnswer,
    LogRequest,
    Wanted,
    answer_of,
    ask,
    forget,
    leave,
    not_yet,
)
from api.store.nodes import read_nodes
from api.store.pods import report_pod
from scheduler.model.lifecycle import JobState, PodState

REPORTS = {
    "Running": PodState.RUNNING,
    "Succeeded": PodState.SUCCEEDED,
    "Failed": PodState.FAILED,
}

LOG_BYTES = 1024 * 1024
"""Of the end of a log, where a caller does not say how much."""

LOOK_S = 0.1
LOGS_AT_ONCE = 8
"""Each holds a thread until the agent answers."""

_logs = threading.BoundedSemaphore(LOGS_AT_ONCE)


def report(call: Call, old: Obj, new: Obj) -> Obj:
    """What a node says of a pod; the pod as it stands, as the report is yet to be acted on."""
    phase = (new.get("status") or {}).get("phase")
    if phase == old["status"]["phase"] or call.dry_run:
        return new if call.dry_run else old
    state = REPORTS.get(str(phase))
    if state is None or "nodeName" not in old["spec"]:
        allowed = f"a pod with a place may become {', '.join(REPORTS)}"
        why = f'Invalid value: "{str(phase)[:80]}": {allowed}'
        raise invalid("Pod", "", name_of(old), [Cause("status.phase", why)])
    report_pod(
        call.parts.database,
        namespace_of(old),
        stored_name(old),
        attempt=attempt_of(old),
        state=state,
        exit_code=_exit_code(new, state),
        now_s=call.now_s,
        may=None if call.caller is ANYBODY else partial(may_report, call.caller),
    )
    return old


def read_log(call: Call, obj: Obj, query: Mapping[str, str]) -> str:
    """The end of a pod's log, from the agent of its node.

    Raises:
        StatusError: 400 if the pod has had no place or no such container, 409 if its agent is
            silent, 429 if it has yet to answer, or too many wait for theirs.
    """
    name = name_of(obj)
    if "nodeName" not in obj["spec"]:
        raise bad_request(f'pod "{name}" has no place yet, and so no log')
    container = query.get("container", "")
    known = [c.get("name") for c in obj["spec"].get("containers") or []]
    if container and container not in known:
        raise bad_request(f'container "{container[:80]}" is not valid for pod "{name}"')
    lines, size = _count(query, "tailLines"), _count(query, "limitBytes")
    attempt = attempt_of(obj) - (query.get("previous") == "true")
    if attempt < 1:
        raise bad_request(f'previous terminated container in pod "{name}" not found')
    wanted = Wanted(0, "out", min(size or LOG_BYTES, LOG_BYTES), attempt)
    text = _fetched(call, obj, wanted)
    kept = text.splitlines(keepends=True)
    return text if lines is None else "".join(kept[len(kept) - min(lines, len(kept)) :])


def _fetched(call: Call, obj: Obj, wanted: Wanted) -> str:
    if not _logs.acquire(blocking=False):
        raise StatusError(429, f"{LOGS_AT_ONCE} logs are being read; try again", retry_after_s=2)
    database = call.parts.database
    try:
        asked, _ = ask(database, namespace_of(obj), stored_name(obj), wanted, now_s=call.now_s)
        ended = leave
        try:
            found = _awaited(call, asked)
            ended = forget
        finally:
            ended(database, asked.id, call.now_s)
    finally:
        _logs.release()
    if found.problem:
        raise conflict(KIND.resource, name_of(obj), f"node '{asked.node}': {found.problem}")
    return found.content.decode("utf-8", errors="replace")


def _awaited(call: Call, asked: LogRequest) -> LogAnswer:
    until_s = time.monotonic() + ANSWER_S
    pause = threading.Event()
    while time.monotonic() < until_s:
        found = answer_of(call.parts.database, asked.id)
        if found is not None:
            return found
        pause.wait(LOOK_S)
    raise StatusError(429, not_yet(asked, ANSWER_S), retry_after_s=1)


def bind(call: Call, old: Obj, body: Obj) -> Obj:
    """Say on which node a pod that waits is to be; it gets that place, or waits for it.

    Raises:
        StatusError: 400 if the body is no binding, 404 if there is no such node, 409 if the pod
            has a place, or is placed together with others.
    """
    name, target = name_of(old), body.get("target") or {}
    node = target.get("name") if isinstance(target, dict) else None
    if body.get("kind") != "Binding" or not isinstance(node, str) or not node:
        raise bad_request(f'a Binding of "{name}" with a target of kind Node is expected')
    if "nodeName" in old["spec"]:
        raise conflict(KIND.resource, name, f"it is on node '{old['spec']['nodeName']}' already")
    if not _is_alone(old):
        raise conflict(KIND.resource, name, "it is a member of a gang, which is placed as a whole")
    namespace = namespace_of(old)

    def work(tx: Transaction) -> None:
        if not read_nodes(call.parts.database, tx.connection, [node]):
            raise StatusError(404, f'nodes "{node[:80]}" not found')
        view = job_view(newest_job(tx.connection, namespace, name))
        if view.state is not JobState.PENDING:
            raise conflict(KIND.resource, name, f"it is {view.state} already")
        if not call.dry_run:
            spec = replace(view.spec, nodes=(node,))
            change = JobChange(spec, view.body | {"nodes": [node]}, view.spec_revision)
            change_in(tx, namespace, name, change)

    call.write(work)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


def stored_name(obj: Obj) -> str:
    """The name of a pod in `/v1`: one that was made by itself has another one there."""
    labels = obj["metadata"]["labels"]
    member = f"{labels['podyard.io/role']}-{labels['podyard.io/index']}".lstrip("-")
    owners = obj["metadata"]["ownerReferences"]
    owner = next(o["name"] for o in owners if o["apiVersion"] == JOB.api_version)
    return f"{owner}-{member}"


def attempt_of(obj: Obj) -> int:
    statuses = obj["status"].get("containerStatuses") or ()
    return max((int(c["restartCount"]) for c in statuses), default=0) + 1


def _is_alone(obj: Obj) -> bool:
    annotations = obj["metadata"].get("annotations") or {}
    groups = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
    return JOB_KEY in annotations and not any(annotations.get(key) for key in groups)


def _exit_code(obj: Obj, state: PodState) -> int | None:
    for container in (obj.get("status") or {}).get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated") or {}
        if isinstance(ended.get("exitCode"), int):
            return int(ended["exitCode"])
    return {PodState.SUCCEEDED: 0, PodState.FAILED: 1}.get(state)


def _count(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise bad_request(f'{name}: Invalid value: "{text[:80]}": must be a whole number of 0 on')
    return int(text)
