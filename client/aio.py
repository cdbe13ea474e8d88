"""The Python client for programs that run in an event loop: `await client.submit(...)`.

Every method does what the one of `client.http.Client` does, and is made from it: what it would ask
is asked without blocking, and what it makes of the answer is the same. So both have the same
arguments, results, errors, retries and idempotency.
"""

import asyncio
import functools
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import Concatenate, Generic, ParamSpec, Self, TypeVar, cast

import httpx

from client.access import Access
from client.calls import PAGE_ITEMS, Pages, items_of, job_path, revision_of
from client.errors import BadAnswer, ClientError, WaitedInVain
from client.http import DEFAULT_SERVER, TOO_EARLY, WAIT_CHUNK_S, Client, Until
from client.shapes import Event, Job
from client.transport import AsyncTransport, Call, Manners, Query, Retry
from client.watching import Following

P = ParamSpec("P")
T = TypeVar("T")


class _Wanted(Exception):
    """What a method of the other client would send now."""

    def __init__(self, call: Call) -> None:
        self.call = call
        super().__init__(call.path)


class _Pretence(Manners):
    """In the place of connections: has answers that came already, and says what is missing."""

    def __init__(self, real: Manners, answers: list[httpx.Response]) -> None:
        super().__init__(real.server, timeout_s=real.timeout_s, retry=real.retry)
        self._left = answers

    def send(self, call: Call) -> httpx.Response:
        if not self._left:
            raise _Wanted(call)
        return self._left.pop(0)

    def read(self, call: Call) -> object:
        return self.value(self.send(call), call)


def _asked(
    method: Callable[Concatenate[Client, P], T],
) -> Callable[Concatenate["AsyncClient", P], Awaitable[T]]:
    """A method of the other client as one that is awaited."""

    async def ask(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        answers: list[httpx.Response] = []
        while True:
            # Gone through again from the start with one answer more, until none is missing.
            try:
                return method(self.pretence(list(answers)), *args, **kwargs)
            except _Wanted as wanted:
                answers.append(await self.transport.send(wanted.call))

    functools.update_wrapper(ask, method)
    return ask


def _listed(
    method: Callable[Concatenate[Client, P], Pages[T]],
) -> Callable[Concatenate["AsyncClient", P], "AsyncPages[T]"]:
    """A list of the other client as one for `async for`."""

    def listed(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> "AsyncPages[T]":
        return AsyncPages(self, method(self.pretence([]), *args, **kwargs))

    functools.update_wrapper(listed, method)
    return listed


class AsyncPages(Generic[T]):
    """The items of a list, fetched a page at a time while they are iterated; once.

    Attributes:
        revision: Of the first page; None before it was read.
    """

    def __init__(self, client: "AsyncClient", pages: Pages[T]) -> None:
        self._client = client
        self._pages = pages
        self.revision: int | None = None

    async def __aiter__(self) -> AsyncIterator[T]:
        cursor: str | None = None
        while True:
            page = await self._page(cursor)
            if self.revision is None:
                self.revision = revision_of(page)
            for item in cast(list[T], items_of(page, self._pages.at)):
                yield item
            following = page.get("next")
            if not following:
                return
            if following == cursor:
                raise BadAnswer(f"{self._pages.at} gave the same cursor twice")
            cursor = str(following)

    async def all(self) -> list[T]:
        """Every item."""
        return [item async for item in self]

    async def _page(self, cursor: str | None) -> Mapping[str, object]:
        try:
            return self._pages.fetch(cursor)
        except _Wanted as wanted:
            return await self._client.read_object(wanted.call)


class AsyncClient:
    """Talks to one service; an asynchronous context manager that closes its connections.

    See `Client`: the same methods, to be awaited; lists are for `async for`.
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
        sleep: Callable[[float], Awaitable[object]] | None = None,
    ) -> None:
        """Prepare to talk to a service.

        Args:
            verify: File with the authority of the service's certificate.
            cert: Files of a certificate to show, and of its key; "" = in the same.
            access: All of that at once, and tokens in files.
        """
        cert_file, key_file = cert or ("", "")
        shown = access or Access(token or "", "", verify or "", cert_file, key_file)
        self.sleep = sleep or asyncio.sleep
        self.transport = AsyncTransport(
            base_url, timeout_s=timeout_s, access=shown, retry=retry or Retry(), sleep=self.sleep
        )

    @property
    def server(self) -> str:
        return self.transport.server

    async def close(self) -> None:
        await self.transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def pretence(self, answers: list[httpx.Response]) -> Client:
        """The other client with these answers in place of a connection."""
        made = Client.__new__(Client)
        made.sleep = _never
        made._transport = _Pretence(self.transport, answers)  # type: ignore[assignment]  # all of it that is asked
        return made

    async def read_object(self, call: Call) -> dict[str, object]:
        """The object that answers a call."""
        return self.pretence([await self.transport.send(call)])._object(call)

    import_inventory = _asked(Client.import_inventory)
    inventory = _asked(Client.inventory)
    topology = _asked(Client.topology)
    domains = _listed(Client.domains)
    racks = _listed(Client.racks)
    nodes = _listed(Client.nodes)
    node = _asked(Client.node)
    cordon = _asked(Client.cordon)
    uncordon = _asked(Client.uncordon)

    submit = _asked(Client.submit)
    batch = _asked(Client.batch)
    change_job = _asked(Client.change_job)
    dry_run = _asked(Client.dry_run)
    what_if = _asked(Client.what_if)
    jobs = _listed(Client.jobs)
    job = _asked(Client.job)
    cancel = _asked(Client.cancel)
    placement = _asked(Client.placement)
    placement_text = _asked(Client.placement_text)
    explain = _asked(Client.explain)
    job_events = _listed(Client.job_events)

    pods = _listed(Client.pods)
    report_pod = _asked(Client.report_pod)
    pod_log = _asked(Client.pod_log)
    queues = _listed(Client.queues)
    queue = _asked(Client.queue)
    create_queue = _asked(Client.create_queue)
    change_queue = _asked(Client.change_queue)
    put_queue = _asked(Client.put_queue)
    delete_queue = _asked(Client.delete_queue)
    usage = _listed(Client.usage)
    policy = _asked(Client.policy)
    set_policy = _asked(Client.set_policy)

    next_event = _asked(Client.next_event)
    revision = _asked(Client.revision)
    overview = _asked(Client.overview)
    advance_clock = _asked(Client.advance_clock)

    control_job = _asked(Client.control_job)
    save_checkpoint = _asked(Client.save_checkpoint)
    checkpoints = _listed(Client.checkpoints)
    deliveries = _listed(Client.deliveries)
    delivery = _asked(Client.delivery)
    retry_delivery = _asked(Client.retry_delivery)
    claims = _listed(Client.claims)
    reservations = _listed(Client.reservations)
    reservation = _asked(Client.reservation)
    create_reservation = _asked(Client.create_reservation)
    delete_reservation = _asked(Client.delete_reservation)

    drain = _asked(Client.drain)
    drain_set = _asked(Client.drain_set)
    undrain = _asked(Client.undrain)
    undrain_set = _asked(Client.undrain_set)
    fence = _asked(Client.fence)
    report_fault = _asked(Client.report_fault)
    report_set_fault = _asked(Client.report_set_fault)
    faults = _listed(Client.faults)
    clear_fault = _asked(Client.clear_fault)
    spares = _asked(Client.spares)
    whoami = _asked(Client.whoami)
    audit = _listed(Client.audit)
    breaker = _asked(Client.breaker)
    reset_breaker = _asked(Client.reset_breaker)

    async def wait_job(
        self, namespace: str, name: str, *, timeout_s: float, until: Until = "bound"
    ) -> Job:
        """Wait until a job is so far; see `Client.wait_job`."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            asked_s = time.monotonic()
            chunk_s = round(min(max(0.0, deadline_s - asked_s), WAIT_CHUNK_S), 3)
            query: Query = {"wait": until, "timeout_s": chunk_s}
            call = Call("GET", job_path(namespace, name), query, repeatable=True, wait_s=chunk_s)
            job = cast(Job, await self.read_object(call))
            if job.get("state") not in TOO_EARLY[until]:
                return job
            now_s = time.monotonic()
            if now_s >= deadline_s or chunk_s == 0:
                raise WaitedInVain(job, until, timeout_s)
            if now_s - asked_s < chunk_s / 2:
                await self.sleep(min(0.25, chunk_s))

    async def events(self, *, since: int = 0) -> AsyncGenerator[Event, None]:
        """Events with a revision above `since`, oldest first; see `Client.events`."""
        end: int | None = None
        while end is None or since < end:
            query: Query = {"since": since, "limit": PAGE_ITEMS}
            page = await self.read_object(Call("GET", "/v1/events", query, repeatable=True))
            items = cast(list[Event], items_of(page, "GET /v1/events"))
            for event in items:
                yield event
            newest = max((event.get("revision", 0) for event in items), default=since)
            if newest <= since:
                return
            since, end = newest, end if end is not None else revision_of(page)

    async def watch(
        self,
        *,
        since: int | None = None,
        kinds: tuple[str, ...] = (),
        namespace: str | None = None,
        job: str | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Events as they happen, without an end, over any disconnection; see `Client.watch`."""
        wanted = {"since": since, "kind": ",".join(kinds) or None}
        following = Following(self.transport, wanted | {"namespace": namespace, "job": job}, since)
        while True:
            try:
                async with self.transport.stream(following.call()) as lines:
                    async for line in lines:
                        for event in following.take(line):
                            yield event
            except ClientError as error:
                following.failed(error)
            await self.sleep(following.pause_s())

    async def is_ready(self) -> bool:
        """Whether the service takes requests; False when it says no or cannot be reached."""
        try:
            await self.transport.send(Call("GET", "/readyz", tries=1))
        except ClientError:
            return False
        return True


def _never(_: float) -> None:
    """Nothing is waited for in a pretence."""
