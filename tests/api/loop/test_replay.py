"""Every decision in the log is made again from what it read, and comes out the same."""

import random
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from api.clock import ManualClock
from api.command import app
from api.loop import replay as replay_module
from api.loop.replay import past, replay, replay_all
from api.loop.runner import Runner
from api.pace import Pace
from api.store import decisions as module
from api.store.decisions import DecisionLog, chains, find_decision, trim_decisions
from api.store.engine import Database
from api.store.errors import Conflict, NotFound
from api.store.events import current_revision, list_events
from api.store.jobs import cancel_job
from api.store.journal import JournalWorld, Reader, inventory_of
from api.store.nodes import cordon_node, import_inventory, uncordon_node
from api.store.pods import list_pods, report_pod
from api.store.policy import put_policy
from api.store.schema import open_database
from api.store.snapshot import load_snapshot
from api.store.tables import decision_bases, decisions
from scheduler.cluster.world import World
from scheduler.cycle import run_cycle
from scheduler.model.lifecycle import PodState
from scheduler.model.node import FabricLevel
from scheduler.model.plan import Plan
from scheduler.policy import Policy, PolicyError
from scheduler.topology.build import build
from tests.api.loop.turns import settle
from tests.api.store.build import NOW_S, load_cluster, make_spec, submit
from tests.api.store.test_snapshot import same
from tests.builders import make_inventory

cli = CliRunner()


def make_runner(database: Database, *, keep: int = 1_000, keep_bytes: int = 1 << 24) -> Runner:
    log = DecisionLog(database, keep=keep, keep_bytes=keep_bytes)
    return Runner(database, ManualClock(NOW_S), decisions=log)


@pytest.fixture
def runner(database: Database) -> Iterator[Runner]:
    made = make_runner(database)
    yield made
    made.stop()


def _act(database: Database, chance: random.Random, number: int) -> None:
    """Something that a caller does."""
    with suppress(Conflict, NotFound):
        match chance.randrange(10):
            case 0 | 1 | 2 | 3:
                spec = make_spec(f"j{number}", replicas=chance.randint(1, 6), gpus=4)
                submit(database, spec)
            case 4 | 5 | 6:
                pods = list_pods(database).items
                if pods:
                    pod = chance.choice(pods)
                    state = chance.choice([PodState.RUNNING, PodState.SUCCEEDED, PodState.FAILED])
                    report_pod(
                        database,
                        "default",
                        pod.name,
                        attempt=pod.attempt,
                        state=state,
                        exit_code=0,
                        now_s=NOW_S,
                    )
            case 7:
                cancel_job(database, "default", f"j{chance.randrange(number + 1)}", now_s=NOW_S)
            case 8:
                name = f"n{chance.randint(1, 8):03d}"
                if chance.random() < 0.4:
                    cordon_node(database, name, reason="", by="", now_s=NOW_S)
                else:
                    uncordon_node(database, name, now_s=NOW_S)
            case _ if chance.random() < 0.2:
                sizes = {"block": 1, "leaf": 1, "rack": chance.choice([2, 4]), "node": 8}
                inventory = make_inventory(sizes)
                import_inventory(database, inventory, prune=False, dry_run=False, now_s=NOW_S)
            case _:
                put_policy(database, {"paused": chance.random() < 0.2}, now_s=NOW_S)


def _history(database: Database, runner: Runner, seed: int, decided: int) -> None:
    """Random doings with turns between them until so many decisions are in the log."""
    chance = random.Random(seed)
    number = 0
    while sum(c.count for c in chains(database)) < decided:
        for _ in range(chance.randint(1, 3)):
            _act(database, chance, number)
            number += 1
        runner.turn()


def test_every_decision_of_a_random_history_is_repeated_identically(
    database: Database, runner: Runner
) -> None:
    load_cluster(database, 8)
    _history(database, runner, seed=4, decided=100)
    done = list(replay_all(database))
    assert [d.differences for d in done] == [()] * len(done)
    assert len(done) == 100
    plans = [d.decision.plan for d in done]
    assert sum(bool(p.pods) for p in plans) > 10
    assert sum(bool(p.pod_moves) for p in plans) > 10
    assert any(m.verdict for p in plans for m in p.job_moves)


def test_decisions_are_repeated_from_bases_that_a_thread_wrote(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A base comes every fifth decision; all are there once the runner has stopped."""
    monkeypatch.setattr(module, "AT_ONCE", 0)
    load_cluster(database, 8)
    runner = make_runner(database, keep=40)
    _history(database, runner, seed=5, decided=30)
    runner.stop()
    assert len(chains(database)) > 3
    done = list(replay_all(database))
    assert len(done) >= 25
    assert [d.differences for d in done] == [()] * len(done)


def test_decision_is_found_by_the_revision_it_stood_on_or_wrote(
    database: Database, runner: Runner
) -> None:
    load_cluster(database)
    submit(database, "a")
    before = current_revision(database)
    settle(runner)
    bound = list_events(database, 0, kind="job.bound").items[0].revision
    began = next(e.revision for e in list_events(database, 0).items if e.kind == "leader.began")
    assert before < began < bound
    assert replay(database, began).decision == replay(database, bound).decision
    with pytest.raises(NotFound, match=f"decision 'on revision {before}'"):
        replay(database, before)


def test_log_tells_what_would_be_decided_otherwise(
    database: Database, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_cluster(database)
    submit(database, "a")
    settle(runner)

    def cordoned(world: World, policy: Policy, now_s: float) -> Plan:
        world.set_node("n001", aside="cordoned")
        return run_cycle(world, policy, now_s)

    monkeypatch.setattr(replay_module, "run_cycle", cordoned)
    (done,) = replay_all(database)
    assert any(": node n001 then, n0" in line for line in done.differences), done.differences


def test_command_repeats_decisions_and_tells_by_its_status(
    database: Database, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_cluster(database)
    submit(database, "a")
    settle(runner)
    revision = list_events(database, 0, kind="job.bound").items[0].revision
    arguments = ["replay", "--database-url", database.url]
    one = cli.invoke(app, [*arguments, "--at", str(revision)])
    assert one.exit_code == 0
    assert one.output.endswith("1 jobs moved, 2 pods placed, 0 pods moved, 0 facts: identical\n")
    every = cli.invoke(app, arguments)
    assert (every.exit_code, every.output) == (0, "1 decisions, 1 identical\n")
    none = cli.invoke(app, [*arguments, "--at", "1"])
    assert none.exit_code == 2
    assert "does not exist" in none.output
    monkeypatch.setattr(replay_module, "run_cycle", lambda world, _p, _n: Plan(world.revision))
    other = cli.invoke(app, [*arguments, "--at", str(revision)])
    assert other.exit_code == 1
    assert "; now not there" in other.output


def test_copy_of_a_large_world_gives_way_between_its_parts(database: Database) -> None:
    load_cluster(database)
    submit(database, "j")
    world = load_snapshot(database, JournalWorld).world
    assert isinstance(world, JournalWorld)
    frozen, rests = world.freeze(), list[float]()
    paced = Pace(rests.append).through(frozen.lines())
    assert module._compressed(paced) == module._compressed(frozen.lines())
    assert len(rests) == len(list(frozen.lines()))
    assert min(rests) > 0


def test_log_stays_within_its_limits(database: Database) -> None:
    load_cluster(database, 8)
    runner = make_runner(database, keep=16)
    chance = random.Random(6)
    for number in range(200):
        _act(database, chance, number)
        runner.turn()
    runner.stop()
    trim_decisions(database, keep=16, keep_bytes=1 << 24)
    assert 0 < sum(c.count for c in chains(database)) <= 16
    newest = chains(database)[-1]
    trim_decisions(database, keep=1, keep_bytes=1)
    assert chains(database) == [newest]
    assert all(not done.differences for done in replay_all(database))


def test_plan_that_changes_nothing_is_not_written_and_not_forgotten(
    database: Database, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit from which every job dropped out: what the world was told goes with the next."""
    load_cluster(database)
    settle(runner)
    real = module.DecisionLog.prepare

    def raced(*arguments: object) -> object:
        monkeypatch.undo()
        cancel_job(database, "default", "a", now_s=NOW_S)
        return real(*arguments)  # type: ignore[arg-type]  # handed on

    submit(database, "a")
    monkeypatch.setattr(module.DecisionLog, "prepare", raced)
    runner.turn()
    assert chains(database) == []
    submit(database, "b")
    settle(runner)
    assert [done.differences for done in replay_all(database)] == [()]


def test_runner_without_a_log_writes_none(database: Database) -> None:
    load_cluster(database)
    submit(database, "a")
    runner = Runner(database, ManualClock(NOW_S))
    settle(runner)
    runner.stop()
    assert chains(database) == []
    assert find_decision(database, 3) is None


def test_topology_is_made_again_from_itself() -> None:
    inventory = make_inventory({"block": 2, "leaf": 2, "rack": 2, "node": 3})
    links = {"leaf": FabricLevel(100.0, 2.0)}
    for given in (inventory, replace(inventory, fabric=links)):
        made = build(given).topology
        assert build(inventory_of(made)).topology == made


def test_journal_makes_the_same_world_again(database: Database) -> None:
    load_cluster(database, 8)
    runner = make_runner(database)
    _history(database, runner, seed=7, decided=20)
    world = load_snapshot(database, JournalWorld).world
    assert isinstance(world, JournalWorld)
    reader = Reader()
    for line in world.freeze().lines():
        reader.read(line)
    reader.world.revision, reader.world.paused = world.revision, world.paused
    reader.world.facts = world.facts
    assert same(reader.world, world)
    runner.stop()


def test_entry_that_was_tampered_with_is_no_longer_identical(
    database: Database, runner: Runner
) -> None:
    load_cluster(database)
    submit(database, "a")
    settle(runner)
    with database.write_quietly() as connection:
        content = connection.execute(sa.select(decisions.c.content)).scalar_one()
        changed = zlib.decompress(content).replace(b'"gpu_mask":255', b'"gpu_mask":15', 1)
        connection.execute(sa.update(decisions).values(content=zlib.compress(changed)))
        assert connection.execute(sa.select(sa.func.count()).select_from(decision_bases)).scalar()
    (done,) = replay_all(database)
    assert [line for line in done.differences if "gpu_mask 15 then, 255 now" in line]


def test_log_goes_on_after_a_restart(database: Database, database_url: str) -> None:
    load_cluster(database)
    for name in ("a", "b"):
        with closing(open_database(database_url)) as opened:
            runner = make_runner(opened)
            submit(opened, make_spec(name, replicas=1))
            settle(runner)
            runner.stop()
    assert [(c.count, c.has_base) for c in chains(database)] == [(1, True), (1, True)]
    assert [done.differences for done in replay_all(database)] == [(), ()]


def test_decision_under_another_policy_tells_what_would_differ(
    database: Database, runner: Runner
) -> None:
    load_cluster(database)
    submit(database, make_spec("j"))
    settle(runner)
    revision = replay_revision(database)
    assert replay(database, revision).differences == ()
    paused = replay(database, revision, {"paused": False, "order": "shortest_first"})
    assert paused.differences == ()
    with pytest.raises(PolicyError, match="nonsense"):
        replay(database, revision, {"nonsense": 1})


def replay_revision(database: Database) -> int:
    """A revision of which there is a decision."""
    with database.read() as connection:
        return int(connection.execute(sa.select(sa.func.max(decisions.c.revision))).scalar_one())


def test_world_of_the_past_is_the_one_that_was_decided_on(
    database: Database, runner: Runner
) -> None:
    load_cluster(database)
    submit(database, make_spec("first"))
    settle(runner)
    early = replay_revision(database)
    submit(database, make_spec("second"))
    settle(runner)
    then = past(database, early)
    assert [job.spec.name for job in then.world.jobs.values()] == ["first"]
    now = past(database, current_revision(database))
    assert sorted(job.spec.name for job in now.world.jobs.values()) == ["first", "second"]
    with pytest.raises(NotFound, match="before"):
        past(database, 0)
