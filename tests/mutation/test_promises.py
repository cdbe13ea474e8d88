"""Each promise broken on purpose: what catches it is a checker that shares no code with us."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pytest
import sqlalchemy as sa

from api.clock import ManualClock
from api.loop import runner as runner_module
from api.loop.runner import Runner
from api.store import commit as commit_module
from api.store.dependants import Dependants
from api.store.engine import Database, Transaction
from api.store.errors import LedgerRefused
from api.store.jobs import cancel_job, list_jobs, submit_job
from api.store.keys import KnownKeys
from api.store.pods import list_pods, report_pod
from api.store.views import IdempotencyKey
from scheduler.cluster.nodes import NodeTable
from scheduler.cluster.world import World
from scheduler.cycle import run_cycle
from scheduler.draft.book import Draft
from scheduler.errors import InvariantError
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import JobRecord, Plan
from scheduler.policy import Policy
from tests.api.loop.turns import settle
from tests.api.store.build import NOW_S, load_cluster, make_spec, submit
from tests.checks import Seen, broken_promises


@pytest.fixture
def runner(database: Database) -> Iterator[Runner]:
    load_cluster(database)
    made = Runner(database, ManualClock(NOW_S))
    yield made
    made.stop()


def caught(database: Database, seen: Seen | None = None) -> set[str]:
    """Numbers of the promises that the checker finds broken."""
    return {line.partition(":")[0] for line in broken_promises(database.url, seen)}


def drop_triggers(database: Database, *, of: str = "pods") -> None:
    """The ledger without its guard."""
    with database.write_quietly() as connection:
        if not database.is_sqlite:
            connection.execute(sa.text(f"ALTER TABLE {of} DISABLE TRIGGER USER"))
            return
        names = sa.text("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = :of")
        for name in connection.execute(names, {"of": of}).scalars().all():
            connection.execute(sa.text(f"DROP TRIGGER {name}"))


@pytest.fixture
def triggers_come_back(database: Database) -> Iterator[None]:
    """The database of a PostgreSQL server is lent again."""
    yield
    if not database.is_sqlite:
        with database.write_quietly() as connection:
            for table in ("pods", "claims"):
                connection.execute(sa.text(f"ALTER TABLE {table} ENABLE TRIGGER USER"))


def test_checker_finds_nothing_where_nothing_is_broken(database: Database, runner: Runner) -> None:
    seen = Seen()
    for name in ("a", "b", "c"):
        seen.jobs.add(submit(database, name).uid)
    settle(runner)
    for pod in list_pods(database).items:
        arguments = {"attempt": 1, "exit_code": None, "now_s": NOW_S}
        report_pod(database, "default", pod.name, state=PodState.RUNNING, **arguments)  # type: ignore[arg-type]  # by name
    cancel_job(database, "default", "a", now_s=NOW_S)
    settle(runner)
    assert broken_promises(database.url, seen) == []


@pytest.mark.usefixtures("triggers_come_back")
def test_one_gpu_in_two_bindings_is_caught(
    database: Database, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table of free GPUs forgets what is held, and the schema has lost its triggers."""
    drop_triggers(database)
    monkeypatch.setattr(NodeTable, "hold", lambda _self, _held: None)
    monkeypatch.setattr(NodeTable, "release", lambda _self, _held: None)
    for name in ("a", "b"):
        submit(database, name)
    settle(runner)
    assert "1" in caught(database)


def test_ledger_that_is_not_what_the_pods_say_is_caught(database: Database, runner: Runner) -> None:
    submit(database, "a")
    settle(runner)
    with database.write_quietly() as connection:
        connection.execute(sa.text("UPDATE node_usage SET gpu_mask_used = 1 WHERE node = 'n004'"))
    assert caught(database) == {"1"}


def test_gang_that_starts_in_part_is_caught(
    database: Database, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Transaction.put_last

    def one_short(tx: Transaction, table: sa.Table, rows: Sequence[Mapping[str, object]]) -> None:
        real(tx, table, rows[:-1] if table.name == "pods" else rows)

    monkeypatch.setattr(Transaction, "put_last", one_short)
    submit(database, "a")
    settle(runner)
    assert caught(database) == {"2"}


def test_gang_that_ends_in_part_is_caught(
    database: Database, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its job is cancelled, its pods are not."""

    def job_alone(draft: Draft, job: JobRecord, then: JobState, *_: object) -> None:
        draft.set(job, state=then, reason=None, message="")

    monkeypatch.setattr("scheduler.draft.facts.leave_now", job_alone)
    submit(database, "a")
    settle(runner)
    cancel_job(database, "default", "a", now_s=NOW_S)
    settle(runner)
    assert "2" in caught(database)


def test_job_that_is_acknowledged_and_not_written_is_caught(
    database: Database, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a commit that does not wait for the disk."""
    seen = Seen(jobs={submit(database, "a").uid})
    real = Transaction.finish

    def undone(self: Transaction) -> None:
        real(self)
        self.connection.get_transaction().rollback()  # type: ignore[union-attr]  # there is one

    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "finish", undone)
        seen.jobs.add(submit(database, "b").uid)
    settle(runner)
    assert caught(database, seen) == {"3"}


def test_job_that_ends_twice_is_caught(database: Database, runner: Runner) -> None:
    """One that has succeeded is cancelled as if it were pending."""
    submit(database, "a")
    settle(runner)
    for pod in list_pods(database).items:
        report_pod(
            database,
            "default",
            pod.name,
            attempt=1,
            state=PodState.SUCCEEDED,
            exit_code=0,
            now_s=NOW_S,
        )
    settle(runner)
    with database.write(NOW_S) as tx:
        uid = tx.connection.execute(sa.text("SELECT uid FROM jobs")).scalar_one()
        revision = tx.emit("job.cancelled", subject_kind="job", name="a", uid=uid)
        tx.connection.execute(
            sa.text("UPDATE jobs SET state = 'cancelled', revision = :r"), {"r": revision}
        )
    assert caught(database) == {"3"}


def test_revision_without_an_event_is_caught(
    database: Database, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Transaction.emit

    def skipping(self: Transaction, *arguments: object, **named: object) -> int:
        self.revision += 1
        return real(self, *arguments, **named)  # type: ignore[arg-type]  # handed on

    monkeypatch.setattr(Transaction, "emit", skipping)
    submit(database, "a")
    settle(runner)
    assert caught(database) == {"4"}


def test_revisions_that_are_not_bumped_are_caught(
    database: Database, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a revision that a watcher has read past already."""
    settle(runner)
    for name in ("_BUMP", "_BUMP_AND_TELL"):
        same = "UPDATE counter SET revision = 1 + 0 * %s"
        monkeypatch.setattr(f"api.store.transaction.{name}", same)
    submit(database, "a")
    assert caught(database) == {"4"}


def test_key_that_makes_two_jobs_is_caught(
    database: Database, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(runner)
    seen = Seen()
    key = IdempotencyKey("someone", "default", "k", "hash")
    monkeypatch.setattr(KnownKeys, "job_of", lambda *_: None)
    for _ in range(2):
        job, _ = submit_job(database, make_spec("a"), {}, now_s=NOW_S, idempotency=key)
        seen.jobs.add(job.uid)
        seen.keys["k"].add(job.uid)
        cancel_job(database, "default", "a", now_s=NOW_S)
    assert caught(database, seen) == {"5"}


def test_eviction_for_a_gang_without_a_place_is_caught(
    database: Database, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim that it is made for gets lost on the way, as if it were a statement of its own."""
    seen = Seen(evicting=set())
    submit(database, make_spec("low", replicas=4))
    settle(runner)
    monkeypatch.setattr(commit_module, "put_claims", lambda *_: None)
    submit(database, make_spec("high", replicas=4, priority=9))
    runner.turn()
    assert states_of(database) == {"low": "evicting", "high": "reserved"}
    found = broken_promises(database.url, seen)
    assert {line.partition(":")[0] for line in found} == {"9"}
    assert any("for whom no place is kept" in line for line in found)


def test_commit_refuses_evictions_whose_claims_are_left_out_of_the_plan(
    database: Database, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(database, make_spec("low", replicas=4))
    settle(runner)
    monkeypatch.setattr(
        runner_module, "run_cycle", lambda *given: replace(run_cycle(*given), claims=())
    )
    submit(database, make_spec("high", replicas=4, priority=9))
    with pytest.raises(InvariantError, match="for whom no place is kept"):
        settle(runner)
    assert states_of(database) == {"low": "bound", "high": "pending"}


def test_stale_victim_that_is_evicted_all_the_same_is_caught(
    database: Database, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its claimant is dropped from the plan since it was cancelled, and nobody goes with it."""
    seen = Seen(evicting=set())
    submit(database, make_spec("low", replicas=4))
    settle(runner)
    submit(database, make_spec("high", replicas=4, priority=9))
    monkeypatch.setattr(Dependants, "of", lambda _self, dropped: dropped)
    monkeypatch.setattr(commit_module, "claimants_without_claim", lambda *_: [])
    _cancel_before_commit(database, runner, monkeypatch)
    assert states_of(database) == {"low": "evicting", "high": "cancelled"}
    assert caught(database, seen) == {"9"}


def test_stale_claimant_leaves_its_victims_alone(
    database: Database, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault of the test before with the commit as it is."""
    submit(database, make_spec("low", replicas=4))
    settle(runner)
    submit(database, make_spec("high", replicas=4, priority=9))
    _cancel_before_commit(database, runner, monkeypatch)
    assert states_of(database) == {"low": "bound", "high": "cancelled"}


@pytest.mark.usefixtures("triggers_come_back")
def test_claims_on_the_same_gpus_are_caught(database: Database, runner: Runner) -> None:
    drop_triggers(database, of="claims")
    submit(database, make_spec("low", replicas=4))
    settle(runner)
    submit(database, make_spec("high", replicas=4, priority=9))
    settle(runner)
    with database.write_quietly() as connection:
        connection.execute(sa.text("UPDATE claims SET node = 'n001'"))
    assert caught(database) == {"1"}


@pytest.mark.usefixtures("triggers_come_back")
def test_pod_on_what_another_gang_is_to_have_is_caught(database: Database, runner: Runner) -> None:
    drop_triggers(database)
    submit(database, make_spec("low", replicas=4))
    settle(runner)
    submit(database, make_spec("high", replicas=4, priority=9))
    settle(runner)
    with database.write_quietly() as connection:
        connection.execute(sa.text("UPDATE jobs SET evict = NULL, state = 'bound'"))
        connection.execute(sa.text("UPDATE pods SET state = 'running'"))
    assert "9" in caught(database)


def borrow_a_spare(database: Database, runner: Runner) -> None:
    """One gang on the node that is kept spare for another."""
    submit(database, make_spec("keeps", replicas=3, spares=1))
    settle(runner)
    submit(database, make_spec("borrows", replicas=1))
    settle(runner)
    assert states_of(database) == {"keeps": "bound", "borrows": "bound"}


def test_who_can_be_made_to_leave_at_once_may_borrow_a_spare(
    database: Database, runner: Runner
) -> None:
    borrow_a_spare(database, runner)
    assert broken_promises(database.url) == []


@pytest.mark.usefixtures("triggers_come_back")
@pytest.mark.parametrize("of", [{"preemptible": False}, {"grace_s": 60.0}])
def test_who_cannot_leave_at_once_on_a_spare_is_caught(
    database: Database, runner: Runner, of: dict[str, object]
) -> None:
    borrow_a_spare(database, runner)
    with database.write_quietly() as connection:
        spec = sa.text("SELECT spec FROM jobs WHERE name = 'borrows'")
        body = json.loads(connection.execute(spec).scalar_one()) | of
        update = sa.text("UPDATE jobs SET spec = :spec WHERE name = 'borrows'")
        connection.execute(update, {"spec": json.dumps(body)})
    assert caught(database) == {"9"}


def test_schema_refuses_a_cycle_that_forgets_what_is_held(
    database: Database, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault of the first test with its triggers in place: nothing gets past the schema."""
    for name in ("a", "b"):
        submit(database, name)
    monkeypatch.setattr(NodeTable, "hold", lambda _self, _held: None)
    monkeypatch.setattr(NodeTable, "release", lambda _self, _held: None)
    with pytest.raises(LedgerRefused, match="ledger: "):
        settle(runner)
    assert broken_promises(database.url) == []


def states_of(database: Database) -> dict[str, str]:
    return {job.name: job.state.value for job in list_jobs(database).items}


def _cancel_before_commit(
    database: Database, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One turn in which the claimant is cancelled after it was decided for."""

    def decide(world: World, policy: Policy, now_s: float) -> Plan:
        plan = run_cycle(world, policy, now_s)
        cancel_job(database, "default", "high", now_s=NOW_S)
        return plan

    with monkeypatch.context() as patch:
        patch.setattr(runner_module, "run_cycle", decide)
        runner.turn()
