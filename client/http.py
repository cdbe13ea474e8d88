"""The Python client: one method for every call of the service's API."""

import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Literal, Self, cast

from client.access import Access
from client.calls import PAGE_ITEMS, Pages, items_of, job_path, json_body, path_of, revision_of
from client.errors import ClientError, WaitedInVain
from client.keeping import Keeping
from client.shapes import (
    BatchResult,
    Body,
    Domain,
    Event,
    Imported,
    Job,
    Node,
    Placement,
    Pod,
    Queue,
    Topology,
    Usage,
    Verdict,
    WhatIf,
)
from client.tending import Tending
from client.transport import Call, Query, Retry, Transport
from client.watching import watch

DEFAULT_SERVER = "http://127.0.0.1:8080"
WAIT_CHUNK_S = 20.0
"""One waiting request lasts no longer, so that proxies in between do not cut it."""

Until = Literal["bound", "running", "finished"]
"""What a job may be waited for."""

_NOT_PLACED = frozenset({"pending", "reserved", "suspended"})
_NOT_ENDED = _NOT_PLACED | {"bound", "running", "recovering", "evicting"}
TOO_EARLY: Mapping[Until, frozenset[str]] = {
    "bound": _NOT_PLACED,
    "running": _NOT_PLACED | {"bound"},
    "finished": _NOT_ENDED,
}
"""States in which a job is not yet as far; one that has ended is past everything."""


class Client(Keeping, Tending):
    """Talks to one service; a context manager that closes its connections.

    Reads, and writes that are the same when done twice, are tried again when the connection
    breaks or the service answers 503. A submit is one of them: it carries an `Idempotency-Key`.
    Every method raises `ApiError` when the service refuses, `Unreachable` when nothing answers
    and `BadAnswer` when something else than Podyard does.
    """

    def __init__(
        self,
        base_url: str = DEFAULT_SERVER,
        timeout_s: float = 30.0,
        token: str | None = None,
        *,
        verify: str | None = None,
        cert: tuple[str, str] | None = None,
        access: Access | None = None,
        retry: Retry | None = None,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        """Prepare to talk to a service.

        Args:
            verify: File with the authority of the service's certificate.
            cert: Files of a certificate to show, and of its key; "" = in the same.
            access: All of that at once, and tokens in files.
        """
        cert_file, key_file = cert or ("", "")
        shown = access or Access(token or "", "", verify or "", cert_file, key_file)
        self.sleep = sleep or time.sleep
        self._transport = Transport(
            base_url, timeout_s=timeout_s, access=shown, retry=retry or Retry(), sleep=self.sleep
        )

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- the cluster ----------------------------------------------------------------------

    def import_inventory(
        self,
        content: bytes,
        *,
        format: str | None = None,
        dry_run: bool = False,
        prune: bool = False,
        content_type: str = "application/yaml",
        options: Mapping[str, str] | None = None,
    ) -> Imported:
        """Create and update what the inventory names; `prune` removes the nodes it does not.

        Args:
            format: Guessed by the service without, where that is safe.
            options: What the text does not tell, as in `{"node_type": "hgx-h100"}`; see the
                service's description of the call.
        """
        query = {**(options or {}), "format": format}
        query |= {"dry_run": "true" if dry_run else None, "prune": "true" if prune else None}
        call = Call("POST", "/v1/inventory", query, content, content_type, repeatable=True)
        return cast(Imported, self._object(call))

    def inventory(self) -> str:
        """The whole inventory as Podyard's YAML; its import would change nothing."""
        call = Call("GET", "/v1/inventory", {"format": "podyard"}, repeatable=True)
        return self._transport.send(call).text

    def topology(self) -> Topology:
        return cast(Topology, self._get("/v1/topology"))

    def domains(self, level: str) -> Pages[Domain]:
        return self._list("/v1/domains", {"level": level})

    def racks(self) -> Pages[Domain]:
        return self._list("/v1/racks", {})

    def nodes(self, *, domain: str | None = None) -> Pages[Node]:
        """Nodes by name; those of one domain, given as `level:name`, if asked for."""
        return self._list("/v1/nodes", {"domain": domain})

    def node(self, name: str) -> Node:
        return cast(Node, self._get(path_of("v1", "nodes", name)))

    def cordon(self, name: str, reason: str = "") -> Node:
        """Keep new pods off a node; those that run there stay."""
        path = path_of("v1", "nodes", name, "cordon")
        return cast(Node, self._send("POST", path, {"reason": reason} if reason else {}))

    def uncordon(self, name: str) -> Node:
        return cast(Node, self._send("POST", path_of("v1", "nodes", name, "uncordon"), {}))

    # -- jobs -----------------------------------------------------------------------------

    def submit(self, job: Body, *, key: str | None = None, wait_s: float | None = None) -> Job:
        """Submit a job.

        Args:
            job: As in the documentation of jobs.
            key: Makes repeats of this submit one job, for 24 hours; one is made up without.
            wait_s: Answer only when the job is bound or ended, or after so many seconds,
                20 at the most.
        """
        query: Query = {}
        if wait_s is not None:
            query = {"wait": "bound", "timeout_s": min(wait_s, WAIT_CHUNK_S)}
        call = Call(
            "POST",
            "/v1/jobs",
            query,
            json_body(job),
            headers={"Idempotency-Key": key or str(uuid.uuid4())},
            repeatable=True,
            wait_s=wait_s or 0.0,
        )
        return cast(Job, self._object(call))

    def batch(
        self, jobs: Sequence[Body] = (), *, delete: Sequence[str] = (), key: str | None = None
    ) -> BatchResult:
        """End jobs, then submit jobs, in one transaction; what is refused keeps nothing else out.

        Args:
            delete: `namespace/name` of each.
            key: As in `submit`; one is made up without.
        """
        headers = {"Idempotency-Key": key or str(uuid.uuid4())}
        content = json_body({"jobs": list(jobs), "delete": list(delete)})
        call = Call("POST", "/v1/jobs:batch", {}, content, headers=headers, repeatable=True)
        return cast(BatchResult, self._object(call))

    def change_job(
        self, namespace: str, name: str, changes: Body, *, revision: int | None = None
    ) -> Job:
        """Change what a job asks for: `priority`, `queue`, times, members.

        Args:
            revision: The change is made only if the job is still at it.
        """
        path = job_path(namespace, name)
        if revision is None:
            return cast(Job, self._send("PATCH", path, changes))
        # Not tried again: after an answer that was lost the revision would be an older one.
        call = Call("PATCH", path, content=json_body({**changes, "revision": revision}))
        return cast(Job, self._object(call))

    def dry_run(self, job: Body) -> Verdict:
        """Where a job would go now, or why it would not; nothing is kept."""
        call = Call("POST", "/v1/jobs", {"dry_run": True}, json_body(job), repeatable=True)
        return cast(Verdict, self._object(call))

    def what_if(self, body: Body) -> WhatIf:
        """What would happen with further jobs and changes; nothing is kept."""
        call = Call("POST", "/v1/whatif", content=json_body(body), repeatable=True)
        return cast(WhatIf, self._object(call))

    def jobs(
        self, *, namespace: str | None = None, queue: str | None = None, state: str | None = None
    ) -> Pages[Job]:
        """Jobs by age, oldest first; those of all namespaces without `namespace`."""
        return self._list("/v1/jobs", {"namespace": namespace, "queue": queue, "state": state})

    def job(self, namespace: str, name: str) -> Job:
        return cast(Job, self._get(job_path(namespace, name)))

    def cancel(self, namespace: str, name: str) -> Job:
        """Cancel a job; delete the record of one that has ended.

        Not tried again once it was sent: a second one would delete the record too.
        """
        return cast(Job, self._object(Call("DELETE", job_path(namespace, name))))

    def placement(self, namespace: str, name: str) -> Placement:
        return cast(Placement, self._get(job_path(namespace, name, "placement")))

    def placement_text(self, namespace: str, name: str, format: str) -> str:
        """A rank map as a launcher reads it: `hostfile` or `torchrun`."""
        path = job_path(namespace, name, "placement")
        return self._transport.send(Call("GET", path, {"format": format}, repeatable=True)).text

    def explain(self, namespace: str, name: str, *, at: int | None = None) -> Verdict:
        """Why a job waits; with `at`, as of a revision of the past."""
        query = "" if at is None else f"?at={at}"
        return cast(Verdict, self._get(job_path(namespace, name, "explain") + query))

    def job_events(self, namespace: str, name: str) -> Pages[Event]:
        return self._list(job_path(namespace, name, "events"), {})

    def wait_job(
        self, namespace: str, name: str, *, timeout_s: float, until: Until = "bound"
    ) -> Job:
        """Wait until a job is so far.

        Returns:
            The job, so far or further. One that failed or was cancelled is returned as well:
            it will not get there any more.

        Raises:
            WaitedInVain: If it is not so far when the time is over.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            asked_s = time.monotonic()
            chunk_s = round(min(max(0.0, deadline_s - asked_s), WAIT_CHUNK_S), 3)
            query: Query = {"wait": until, "timeout_s": chunk_s}
            call = Call("GET", job_path(namespace, name), query, repeatable=True, wait_s=chunk_s)
            job = cast(Job, self._object(call))
            if job.get("state") not in TOO_EARLY[until]:
                return job
            now_s = time.monotonic()
            if now_s >= deadline_s or chunk_s == 0:
                raise WaitedInVain(job, until, timeout_s)
            if now_s - asked_s < chunk_s / 2:
                # The service answered without waiting; do not make it a busy loop.
                self.sleep(min(0.25, chunk_s))

    # -- pods, queues, policy -------------------------------------------------------------

    def pods(
        self, *, namespace: str | None = None, job: str | None = None, node: str | None = None
    ) -> Pages[Pod]:
        return self._list("/v1/pods", {"namespace": namespace, "job": job, "node": node})

    def report_pod(
        self, namespace: str, name: str, *, attempt: int, state: str, exit_code: int | None = None
    ) -> None:
        """Say what became of a pod, as its node would; a repeat does nothing."""
        body: dict[str, object] = {"attempt": attempt, "state": state}
        if exit_code is not None:
            body["exit_code"] = exit_code
        self._send("POST", path_of("v1", "namespaces", namespace, "pods", name, "status"), body)

    def queues(self) -> Pages[Queue]:
        return self._list("/v1/queues", {})

    def queue(self, name: str) -> Queue:
        return cast(Queue, self._get(path_of("v1", "queues", name)))

    def create_queue(self, queue: Body) -> Queue:
        return cast(Queue, self._object(Call("POST", "/v1/queues", content=json_body(queue))))

    def change_queue(self, name: str, changes: Body) -> Queue:
        return cast(Queue, self._send("PATCH", path_of("v1", "queues", name), changes))

    def put_queue(self, name: str, queue: Body) -> Queue:
        """Make a queue, or replace all that is stated of it."""
        return cast(Queue, self._send("PUT", path_of("v1", "queues", name), queue))

    def delete_queue(self, name: str) -> None:
        self._transport.send(Call("DELETE", path_of("v1", "queues", name)))

    def usage(
        self,
        *,
        by: str = "queue",
        month: str | None = None,
        queue: str | None = None,
        namespace: str | None = None,
    ) -> Pages[Usage]:
        """GPU-hours of a month, by `queue`, `namespace`, `job` or `gpu`; this month without."""
        wanted = {"by": by, "month": month, "queue": queue, "namespace": namespace}
        return self._list("/v1/usage", wanted)

    def policy(self) -> dict[str, object]:
        return self._get("/v1/policy")

    def set_policy(self, policy: Body) -> dict[str, object]:
        """Replace the whole policy."""
        return self._send("PUT", "/v1/policy", policy)

    # -- events and the service itself ----------------------------------------------------

    def events(self, *, since: int = 0) -> Iterator[Event]:
        """Events with a revision above `since`, oldest first.

        Those that happen after the first page was read are left for the next call, so that
        a busy service does not make it endless.
        """
        end: int | None = None
        while end is None or since < end:
            page = self._get("/v1/events", {"since": since, "limit": PAGE_ITEMS})
            items = cast(list[Event], items_of(page, "GET /v1/events"))
            yield from items
            newest = max((event.get("revision", 0) for event in items), default=since)
            if newest <= since:
                return
            since = newest
            if end is None:
                end = revision_of(page)

    def watch(
        self,
        *,
        since: int | None = None,
        kinds: Sequence[str] = (),
        namespace: str | None = None,
        job: str | None = None,
    ) -> Generator[Event, None, None]:
        """Events as they happen, without an end: each once, in order, over any disconnection.

        Args:
            since: Begin after this revision; without it, with what happens from now on.
            kinds: `job.bound`, or all of a subject: `job`.
            job: Name of a job; its pods are followed too.

        Raises:
            ApiError: With status 410 if events after `since`, or after a long disconnection, are no
                longer kept: what is there now has to be read anew.
        """
        query = {
            "since": since,
            "kind": ",".join(kinds) or None,
            "namespace": namespace,
            "job": job,
        }
        return watch(self._transport, query, since)

    def next_event(self, revision: int) -> Event | None:
        """The first event after a revision; None after the newest."""
        page = self._get("/v1/events", {"since": revision, "limit": 1})
        items = cast(list[Event], items_of(page, "GET /v1/events"))
        return items[0] if items else None

    def pod_log(self, namespace: str, name: str, query: Query) -> dict[str, object]:
        """The end of a log of a pod: `process`, `stream`, `tail_bytes`, `attempt`, `wait_s`."""
        path = path_of("v1", "namespaces", namespace, "pods", name, "logs")
        waits_s = float(query.get("wait_s") or 0.0)
        return self._object(Call("GET", path, query, repeatable=True, wait_s=waits_s))

    def revision(self) -> int:
        """The newest revision there is."""
        return revision_of(self._get("/v1/jobs", {"limit": 1}))

    def overview(self) -> dict[str, object]:
        return self._get("/v1/overview")

    def is_ready(self) -> bool:
        """Whether the service takes requests; False when it says no or cannot be reached.

        Asked once: whoever waits for a service asks again at a pace of their own.
        """
        try:
            self._transport.send(Call("GET", "/readyz", tries=1))
        except ClientError:
            return False
        return True

    def advance_clock(self, advance_s: float) -> None:
        """Move the clock of a service that runs with `--clock manual`."""
        content = json_body({"advance_s": advance_s})
        self._transport.send(Call("POST", "/v1/test/clock", content=content))
