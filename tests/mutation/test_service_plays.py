"""Each promise broken on purpose in a played service, and found by the checker of plays.

The real code runs but for one place. Some seeds are tried until the fault has had its occasion.
"""

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection

from api.hooks.send import Answer
from api.loop import outbox as outbox_module
from api.loop import runner as runner_module
from api.loop.leader import Leader
from api.store import batch, ending, hearing
from api.store import commit as commit_module
from api.store.bulk import update_rows
from api.store.claims import put_claims
from api.store.commit import commit
from api.store.decisions import Entry
from api.store.engine import Database
from api.store.group import Ticket
from api.store.journal import JournalWorld
from api.store.keys import KnownKeys
from api.store.outbox import Delivery, Outcome
from api.store.schema import open_database
from api.store.transaction import Transaction
from api.store.views import Committed, JobView
from scheduler.draft.book import Draft
from scheduler.model.lifecycle import JobState
from scheduler.model.plan import Plan
from scheduler.recover.health import Verdict, health_of
from tests.api.store.build import load_cluster, make_spec, submit
from tests.mutation.test_two_leaders import _decide_only, _leads, make_runner
from tests.simulation.service.checker import Checker
from tests.simulation.service.history import History
from tests.simulation.service.play import make_template, play
from tests.simulation.service.weather import Weather

STEPS, SEEDS = 2_500, range(1, 5)
BUSY = Weather(submit_every=2.0, cancel_every=8.0)
TAKE_OVERS = Weather(replicas=3, submit_every=3.0, cancel_every=20.0, stall=0.1, stall_s=15.0)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("plays"))


@pytest.fixture
def unguarded(template: Path, tmp_path: Path) -> Path:
    """A database whose triggers count, and refuse nothing."""
    path = tmp_path / "unguarded.db"
    path.write_bytes(template.read_bytes())
    with closing(sqlite3.connect(path)) as lite:
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        for name, sql in lite.execute(query).fetchall():
            lax = re.sub(r"SELECT RAISE\(.*?;", "", sql, flags=re.DOTALL)
            lite.execute(f"DROP TRIGGER {name}")
            if re.search(r"BEGIN\s*END", lax) is None:
                lite.execute(lax)
        lite.commit()
    return path


def caught(template: Path, weather: Weather, promise: int, steps: int = STEPS) -> list[str]:
    """What the checker says of a promise, from the first seed that breaks it."""
    for seed in SEEDS:
        # That a decision comes out the same is seen at the end alone.
        to_its_end = promise == 10
        done = play(seed, steps, template, weather, only=promise, goes_to_its_end=to_its_end)
        broken = done.broken
        if found := [line for line in broken if line.startswith(f"{promise}:")]:
            return found
    return []


def test_commit_of_a_deposed_leader_is_caught_when_fencing_is_off(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leaders stand still as they are about to write, and wake up when another leads."""
    monkeypatch.setattr(commit_module, "_check_epoch", lambda *_: None)
    assert caught(template, TAKE_OVERS, 7)


def test_double_booking_is_caught_when_neither_fencing_nor_the_schema_is_there(
    unguarded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that believe to lead decide on the same GPUs, each before the other has committed."""
    monkeypatch.setattr(Leader, "try_lead", _leads)
    monkeypatch.setattr(commit_module, "_check_epoch", lambda *_: None)
    with closing(open_database(f"sqlite:///{unguarded}")) as database:
        load_cluster(database)
        checker = Checker(str(unguarded), History())
        first, second = make_runner(database), make_runner(database)
        submit(database, make_spec("a", replicas=4))
        commit_first = _decide_only(first, monkeypatch)
        submit(database, make_spec("b", replicas=4, priority=9))
        commit_second = _decide_only(second, monkeypatch)
        commit_first()
        checker.look("one", "podyard-runner", 0.0)
        assert [line for line in checker.broken if line.startswith("1:")] == []
        commit_second()
        checker.look("other", "podyard-runner", 0.0)
        assert any("that another live pod holds" in line for line in checker.broken)
        checker.close()
        for runner in (first, second):
            runner.stop()


def test_plan_that_is_committed_in_two_transactions_is_caught(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_two(
        db: Database, plan: Plan, epoch: int, now_s: float, entry: Entry | None = None
    ) -> Committed:
        if len(plan.pods) > 1:
            commit(db, replace(plan, pods=plan.pods[:-1]), epoch, now_s)
        return commit(db, plan, epoch, now_s, entry)

    monkeypatch.setattr(runner_module, "commit", in_two)
    assert caught(template, BUSY, 2)


def test_job_that_is_acknowledged_though_its_commit_failed_is_caught(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def result(self: Ticket[object]) -> object:
        if self.error is not None and not self.results:
            raise self.error
        return self.results[0]

    monkeypatch.setattr(Ticket, "result", result)
    assert caught(template, replace(BUSY, cut_before=0.1), 3)


def test_record_of_a_job_that_is_deleted_while_it_runs_is_caught(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "FINAL", frozenset(JobState))
    monkeypatch.setattr(ending, "_delete", _delete_anyway)
    assert caught(template, BUSY, 3)


def _delete_anyway(tx: Transaction, rows: ending._Rows, view: JobView) -> None:
    ending._emit(tx, view, "job.deleted", "")
    rows.deleted.append(view.uid)


def test_change_without_a_revision_of_its_own_is_caught(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Followers and watchers have read past it already."""

    def behind(
        connection: Connection, table: sa.Table, key: str, rows: Sequence[Mapping[str, object]]
    ) -> None:
        late = [row | {"revision": 1} if table.name == "pods" else row for row in map(dict, rows)]
        update_rows(connection, table, key, late)

    monkeypatch.setattr(commit_module, "update_rows", behind)
    assert caught(template, BUSY, 4)


def test_key_that_is_not_looked_up_is_caught(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "known_keys", lambda *_, **__: KnownKeys())
    monkeypatch.setattr(KnownKeys, "note", lambda *_: None)
    assert caught(template, replace(BUSY, doubled=0.3, lost=0.1), 5)


def test_message_that_nobody_took_and_that_counts_as_delivered_is_caught(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(_delivery: Delivery, answer: Answer, **_: object) -> Outcome:
        return Outcome(answer.status or 200)

    monkeypatch.setattr(outbox_module, "outcome_of", taken)
    assert caught(template, replace(BUSY, hook_fails=0.3), 6)


def test_fact_that_is_applied_again_is_caught(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each commit says anew of all facts when they were applied."""

    def again(tx: Transaction, kept: object, rows: object) -> None:
        write(tx, kept, rows)
        tx.connection.execute(
            sa.text("UPDATE facts SET applied_at = :now WHERE applied_at IS NOT NULL"),
            {"now": tx.now_s},
        )

    write: Callable[..., None] = commit_module._write
    monkeypatch.setattr(commit_module, "_write", again)
    assert caught(template, BUSY, 6)


@pytest.mark.slow
def test_gpus_that_are_given_away_while_a_silent_machine_uses_them_are_caught(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that is heard again counts as clean, whatever its agent says that it runs."""

    def clean(*given: object, **named: object) -> Verdict:
        return health_of(*given, **named | {"is_clean": True})  # type: ignore[arg-type]  # handed on

    monkeypatch.setattr(hearing, "health_of", clean)
    weather = replace(BUSY, replicas=1, silence_every=8.0, cancel_every=0.0)
    assert caught(template, weather, 8, steps=8_000)


def test_gpus_of_pods_that_are_not_waited_for_are_caught(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancelled job's GPUs are free at once, though agents have yet to stop its pods."""
    monkeypatch.setattr(Draft, "has_agent", lambda *_: False)
    assert caught(template, BUSY, 8)


def test_eviction_outside_of_the_commit_that_keeps_the_place_is_caught(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def put_no_place(
        connection: Connection, rows: list[dict[str, object]], known: list[str]
    ) -> None:
        put_claims(connection, [row for row in rows if row["why"] != "preemption"], known)

    monkeypatch.setattr(commit_module, "put_claims", put_no_place)
    assert caught(template, replace(BUSY, submit_every=1.0), 9)


@pytest.mark.slow
def test_decision_whose_input_was_not_written_down_is_caught(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = JournalWorld.take

    def forgetful(self: JournalWorld) -> list[bytes]:
        return real(self)[:-1]

    monkeypatch.setattr(JournalWorld, "take", forgetful)
    assert caught(template, BUSY, 10)


def test_plan_that_is_not_what_was_written_is_caught(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has the plan as decided; the commit leaves its last pod where it was."""

    def one_short(
        db: Database, plan: Plan, epoch: int, now_s: float, entry: Entry | None = None
    ) -> Committed:
        moves = plan.job_moves if plan.pods else plan.job_moves[:-1]
        return commit(db, replace(plan, job_moves=moves), epoch, now_s, entry)

    monkeypatch.setattr(runner_module, "commit", one_short)
    assert caught(template, BUSY, 10)
