"""Two that believe to lead: the epoch keeps the deposed one out; without it, the schema does."""

from collections.abc import Callable
from itertools import count

import pytest
import sqlalchemy as sa

from api.clock import ManualClock
from api.loop import runner as runner_module
from api.loop.leader import Leader
from api.loop.runner import Runner
from api.store import commit as commit_module
from api.store.commit import commit
from api.store.decisions import DecisionLog
from api.store.engine import Database
from api.store.epoch import take_epoch
from api.store.errors import Deposed, LedgerRefused
from api.store.jobs import cancel_job
from api.store.tables import leader, metadata
from tests.api.store.build import NOW_S, load_cluster, make_spec, submit
from tests.checks import broken_promises


class _Captured(Exception):
    """A commit that was held back."""


_epochs = count(1)


def _leads(self: Leader) -> bool:
    self.epoch = self.epoch or next(_epochs)
    return True


def make_runner(database: Database) -> Runner:
    return Runner(
        database,
        ManualClock(NOW_S),
        decisions=DecisionLog(database, keep=100, keep_bytes=1 << 20),
    )


def _decide_only(runner: Runner, patch: pytest.MonkeyPatch) -> Callable[[], object]:
    """What a runner would commit now, to be done later."""
    held: list[Callable[[], object]] = []

    def capture(*arguments: object) -> object:
        held.append(lambda: commit(*arguments))  # type: ignore[arg-type]  # handed on
        raise _Captured

    patch.setattr(runner_module, "commit", capture)
    with pytest.raises(_Captured):
        runner.turn()
    patch.setattr(runner_module, "commit", commit)
    return held[0]


def content(database: Database) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table, but who leads."""
    with database.read() as connection:
        return {
            name: sorted(map(tuple, connection.execute(sa.select(table)).all()), key=repr)
            for name, table in metadata.tables.items()
            if table is not leader
        }


def test_schema_refuses_the_double_booking_of_two_forced_leaders(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither lock nor epoch; each decides on a world without the other's job in that place."""
    monkeypatch.setattr(Leader, "try_lead", _leads)
    monkeypatch.setattr(commit_module, "_check_epoch", lambda _connection, _epoch: None)
    load_cluster(database)
    first, second = make_runner(database), make_runner(database)
    submit(database, make_spec("a", replicas=4))
    commit_first = _decide_only(first, monkeypatch)
    submit(database, make_spec("b", replicas=4, priority=9))
    commit_second = _decide_only(second, monkeypatch)
    commit_first()
    before = content(database)
    with pytest.raises(LedgerRefused, match="ledger: "):
        commit_second()
    assert content(database) == before
    assert broken_promises(database.url) == []
    for runner in (first, second):
        runner.stop()


def test_forced_leaders_in_turns_break_no_promise(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both decide on worlds of their own, commits in both orders; what is refused is redone."""
    monkeypatch.setattr(Leader, "try_lead", _leads)
    monkeypatch.setattr(commit_module, "_check_epoch", lambda _connection, _epoch: None)
    load_cluster(database)
    runners = [make_runner(database), make_runner(database)]
    refused: list[str] = []
    for number in range(12):
        commits = []
        for offset, runner in enumerate(runners):
            spec = make_spec(f"j{number}-{offset}", replicas=2, priority=2 * number + offset)
            submit(database, spec)
            commits.append(_decide_only(runner, monkeypatch))
        for do in commits if number % 2 else commits[::-1]:
            try:
                do()
            except LedgerRefused as error:
                refused.append(str(error))
            assert broken_promises(database.url) == []
        for offset, runner in enumerate(runners):
            cancel_job(database, "default", f"j{number}-{offset}", now_s=NOW_S)
            runner._known = None
    assert len(refused) > 3
    assert all("ledger: " in error for error in refused)
    for runner in runners:
        runner.stop()


def test_deposed_leader_writes_nothing_at_all(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_cluster(database)
    runner = make_runner(database)
    submit(database, make_spec("a", replicas=4))
    commit_late = _decide_only(runner, monkeypatch)
    assert take_epoch(database, 1, "another", now_s=NOW_S) == 2
    before = content(database)
    with pytest.raises(Deposed):
        commit_late()
    assert content(database) == before
    runner.stop()
