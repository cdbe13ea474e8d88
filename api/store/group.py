"""Writes of several threads in one transaction: the first takes along who came meanwhile."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Generic, TypeAlias, TypeVar

from api.store.errors import StoreError
from api.store.transaction import Transaction
from scheduler.errors import SchedulerError, invariant

Result = TypeVar("Result")

GROUP_MAX = 64
"""Writes that may share a transaction; bounds how long the first of them waits for its answer."""


Outcome: TypeAlias = Any
"""What a ticket's work returns, or the error that refuses it."""

Many: TypeAlias = Callable[[Transaction, list[Any]], Sequence[Outcome]]


@dataclass(slots=True, eq=False)
class Ticket(Generic[Result]):
    """One write that waits for its turn.

    Attributes:
        work: What it does; None where `many` does it for all that are alike.
        item: What `many` is told of this one.
        is_awaited: Somebody waits for what is decided on it.
        woken: Set when it is done, or when it is its thread's turn to lead.
    """

    work: Callable[[Transaction], Result] | None = None
    now_s: float = 0.0
    many: Many | None = None
    item: object = None
    is_awaited: bool = False
    is_done: bool = False
    results: list[Result] = field(default_factory=list)
    error: Exception | None = None
    woken: threading.Event = field(default_factory=threading.Event)

    def run(self, transaction: Transaction) -> None:
        """Do the work; keep a refusal that came before anything was written."""
        invariant(self.work is not None, "a ticket by itself has its work")
        before = transaction.revision
        transaction.now_s, self.error = self.now_s, None
        try:
            self.results[:] = [self.work(transaction)]  # type: ignore[misc]  # see the invariant
        except (StoreError, SchedulerError) as error:
            if transaction.revision != before:
                raise  # it had written: the whole transaction must go
            self.error = error

    def take(self, outcome: Outcome) -> None:
        """Note what became of this one of many."""
        self.error = outcome if isinstance(outcome, Exception) else None
        if self.error is None:
            self.results[:] = [outcome]

    def result(self) -> Result:
        """What the work returned; raises what it raised."""
        if self.error is not None:
            raise self.error
        invariant(self.results, "a write that is done has a result or an error")
        return self.results[0]


Group: TypeAlias = list[Ticket[Any]]
"""Each ticket has a result type of its own."""


def run_all(group: Group, transaction: Transaction) -> None:
    """Run tickets in their order; those alike that stand together are run at once."""
    for many, alike in groupby(group, key=lambda ticket: ticket.many):
        tickets = list(alike)
        if many is None:
            for ticket in tickets:
                transaction.catch_up()
                ticket.run(transaction)
            continue
        transaction.catch_up()
        transaction.now_s = tickets[0].now_s
        outcomes = many(transaction, [ticket.item for ticket in tickets])
        for ticket, outcome in zip(tickets, outcomes, strict=True):
            ticket.take(outcome)


class GroupQueue:
    """The line of writes that wait.

    The thread of the first ticket leads: it runs the group that has come together, then hands on to
    the first of those that came while it did.

    Args:
        run: Takes the lock, then the group, and runs it.
    """

    def __init__(self, run: Callable[[Callable[[], Group]], None]) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._waiting: Group = []
        self._is_led = False

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(self, ticket: Ticket[Result]) -> Result:
        """Have a write run in a group; returns or raises what it does once that is durable."""
        with self._lock:
            self._waiting.append(ticket)
            leads, self._is_led = not self._is_led, True
        if not leads:
            ticket.woken.wait()
        if not ticket.is_done:
            self._lead()
        return ticket.result()

    def _lead(self) -> None:
        group: Group = []

        def take() -> Group:
            with self._lock:
                group[:], self._waiting = self._waiting[:GROUP_MAX], self._waiting[GROUP_MAX:]
            return group

        try:
            self._run(take)
        finally:
            with self._lock:
                following = self._waiting[0] if self._waiting else None
                self._is_led = following is not None
            if following is not None:
                following.woken.set()
            for ticket in group:
                ticket.is_done = True
                ticket.woken.set()
