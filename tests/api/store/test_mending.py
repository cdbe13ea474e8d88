"""A ledger that was damaged by hand: found, named, mended; gangs that are well stay as they are."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from api.clock import ManualClock
from api.command import app
from api.loop.promised import promised_by_log
from api.loop.runner import Runner
from api.store.decisions import DecisionLog
from api.store.engine import Database
from api.store.ledger import audit_ledger
from api.store.mending import advice, mend
from api.store.promised import Promised
from api.store.set_aside import set_parts_aside
from api.store.snapshot import follow, load_world
from api.store.standing import all_standings
from scheduler.model.claim import ClaimWhy
from scheduler.model.lifecycle import JobState
from scheduler.model.standing import aside_of
from tests.api.loop.turns import settle
from tests.api.store.build import NOW_S, bind, load_cluster, make_spec, submit
from tests.api.store.raw import (
    add_claim,
    add_job,
    add_pod,
    execute,
    switch_off_triggers,
    switch_on_triggers,
)

NUMBERS = {
    "a node's GPUs": (
        "UPDATE node_usage SET gpu_mask_used = 7 WHERE node = 'n001'",
        "node 'n001': gpu_mask_used is 7, pods say 3",
    ),
    "a node's CPUs": (
        "UPDATE node_usage SET cpu_milli_used = 5 WHERE node = 'n002'",
        "node 'n002': cpu_milli_used is 5, pods say 0",
    ),
    "a node's pods": (
        "UPDATE node_usage SET pods = 3 WHERE node = 'n003'",
        "node 'n003': pods is 3, pods say 0",
    ),
    "a job's GPUs": (
        "UPDATE jobs SET gpus_held = 9 WHERE name = 'a'",
        "gpus_held is 9, pods say 2",
    ),
    "a job's pods": (
        "UPDATE jobs SET pods_live = 0 WHERE name = 'b'",
        "pods_live is 0, pods say 1",
    ),
}


@pytest.fixture
def yard(database: Database) -> Database:
    """Two gangs in their places."""
    load_cluster(database)
    bind(database, submit(database, make_spec("a", replicas=1)), ["n001"], mask=0b11)
    bind(database, submit(database, make_spec("b", replicas=1)), ["n004"])
    return database


def all_pods(database: Database, *but: str) -> list[object]:
    """Rows of pods, those of some jobs left out."""
    with database.read() as connection:
        query = sa.text("SELECT * FROM pods ORDER BY uid")
        return [tuple(r) for r in connection.execute(query) if not str(r.name).startswith(but)]


@pytest.mark.parametrize("damage", NUMBERS)
def test_wrong_number_is_named_and_mended_without_touching_gangs(
    yard: Database, damage: str
) -> None:
    statement, said = NUMBERS[damage]
    before = all_pods(yard)
    execute(yard, statement)
    found = [str(difference) for difference in audit_ledger(yard).differences]
    assert len(found) == 1
    assert said in found[0]
    (done,) = mend(yard, now_s=NOW_S)
    assert "was" in done
    assert audit_ledger(yard).is_clean
    assert all_pods(yard) == before
    assert mend(yard, now_s=NOW_S) == []


@pytest.fixture
def log(database: Database) -> Iterator[Runner]:
    """A runner that has placed three gangs of a node each, and written down what it decided."""
    runner = Runner(
        database,
        ManualClock(NOW_S),
        decisions=DecisionLog(database, keep=1_000, keep_bytes=1 << 24),
    )
    load_cluster(database)
    for name in "abc":
        submit(database, make_spec(name, replicas=1))
        settle(runner)
    settle(runner)
    yield runner
    runner.stop()


@contextmanager
def by_hand(database: Database) -> Iterator[None]:
    """As somebody does who knows what the triggers are in the way of."""
    switch_off_triggers(database, "pods")
    yield
    switch_on_triggers(database)


def promised(database: Database) -> Promised:
    found = promised_by_log(database)
    assert found is not None
    return found


def place_of(database: Database, job: str) -> tuple[str, str]:
    with database.read() as connection:
        query = "SELECT node, state FROM pods WHERE name LIKE :job || '-%'"
        return tuple(connection.execute(sa.text(query), {"job": job}).one())


def _move(database: Database) -> None:
    with by_hand(database):
        execute(database, "UPDATE pods SET node = 'n004' WHERE name LIKE 'b-%'")


def _move_onto_another(database: Database) -> None:
    target = place_of(database, "a")[0]
    with by_hand(database):
        execute(database, f"UPDATE pods SET node = '{target}' WHERE name LIKE 'b-%'")


def _swap_with_another(database: Database) -> None:
    first, second = place_of(database, "b")[0], place_of(database, "c")[0]
    with by_hand(database):
        execute(database, f"UPDATE pods SET node = '{second}' WHERE name LIKE 'b-%'")
        execute(database, f"UPDATE pods SET node = '{first}' WHERE name LIKE 'c-%'")


def _end(database: Database) -> None:
    execute(database, "UPDATE pods SET state = 'stopped' WHERE name LIKE 'b-%'")


def _delete(database: Database) -> None:
    execute(database, "DELETE FROM pods WHERE name LIKE 'b-%'")


DAMAGES: dict[str, tuple[Callable[[Database], None], str]] = {
    "moved": (_move, "is on node 'n004'"),
    "moved onto another": (_move_onto_another, "that another live pod holds"),
    "swapped": (_swap_with_another, "the decision log has it on node"),
    "ended": (_end, "stopped, attempt 1; the decision log has it"),
    "deleted": (_delete, "is gone"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_pod_that_was_changed_by_hand_is_put_back_where_the_log_has_it(
    database: Database, log: Runner, damage: str
) -> None:
    act, said = DAMAGES[damage]
    places = {job: place_of(database, job) for job in "abc"}
    others = all_pods(database, "b", "c" if damage == "swapped" else "b")
    act(database)
    audit = audit_ledger(database, promised(database))
    assert said in "\n".join(audit.lines)
    assert places["b"][0] in audit.parts.nodes
    mended = mend(database, now_s=NOW_S, promised=promised(database))
    assert any("again, as it was decided" in line for line in mended), mended
    assert audit_ledger(database, promised(database)).is_clean
    assert {job: place_of(database, job) for job in "abc"} == places
    assert all_pods(database, "b", "c" if damage == "swapped" else "b") == others
    settle(log)
    assert {job: place_of(database, job) for job in "abc"} == places


def test_pod_that_nobody_decided_is_stopped(database: Database, log: Runner) -> None:
    add_job(database, "z-0", state="failed", name="z")
    add_pod(database, "z-0-0", "z-0", "n004", 0b1)
    assert "no such live pod" in "\n".join(audit_ledger(database, promised(database)).lines)
    mended = mend(database, now_s=NOW_S, promised=promised(database))
    assert mended == ["pod 'z-0-0' is stopped, as the decision log has no such live pod"]
    assert audit_ledger(database, promised(database)).is_clean


def test_gpus_held_twice_go_to_who_was_first_where_no_log_tells(
    database: Database, log: Runner
) -> None:
    execute(database, "DELETE FROM decisions")
    assert promised_by_log(database) is None
    others = all_pods(database, "b")
    _move_onto_another(database)
    assert len(audit_ledger(database).doubles) == 1
    mended = mend(database, now_s=NOW_S)
    assert any("job 'default/b' is to start anew" in line for line in mended)
    assert audit_ledger(database).is_clean
    assert all_pods(database, "b") == others
    settle(log)
    world = load_world(database)
    (again,) = (job for job in world.jobs.values() if job.spec.name == "b")
    assert again.state is JobState.BOUND
    assert audit_ledger(database).is_clean


def test_claim_left_by_a_job_that_ended_goes_and_followers_learn_of_it(yard: Database) -> None:
    uid = submit(yard, make_spec("gone", replicas=1)).uid
    add_claim(yard, "gone-0", 0xFF, node="n002", job=uid)
    world = load_world(yard)
    assert len(world.claims) == 1
    switch_off_triggers(yard, "jobs")
    execute(yard, "UPDATE jobs SET state = 'failed' WHERE name = 'gone'")
    assert "which has ended" in "\n".join(audit_ledger(yard).lines)
    assert mend(yard, now_s=NOW_S) == [f"claim 'gone-0' of job '{uid}', which has ended, is gone"]
    assert audit_ledger(yard).is_clean
    follow(yard, world)
    assert world.claims == {}


def test_claims_of_a_living_gang_that_should_not_be_are_made_anew(
    database: Database, log: Runner
) -> None:
    """One with a place kept for it: its claim is spoiled, and it gets a good one."""
    submit(database, make_spec("urgent", replicas=4, priority=9))
    settle(log)
    kept = load_world(database).claims
    assert {claim.why for claim in kept.values()} == {ClaimWhy.PREEMPTION}
    switch_off_triggers(database, "claims")
    execute(database, "UPDATE claims SET gpu_mask = 1023 WHERE node = 'n001'")
    switch_on_triggers(database)
    assert "that node 'n001' does not have" in "\n".join(audit_ledger(database).lines)
    before = all_pods(database)
    mended = mend(database, now_s=NOW_S)
    assert len([line for line in mended if "gets a new one" in line]) == len(kept)
    assert all_pods(database) == before
    assert audit_ledger(database).is_clean
    settle(log)
    again = load_world(database)
    assert {claim.why for claim in again.claims.values()} == {ClaimWhy.PREEMPTION}
    assert len(again.claims) == len(kept)
    assert audit_ledger(database).is_clean


def test_triggers_that_were_switched_off_are_missed_and_put_back(yard: Database) -> None:
    switch_off_triggers(yard, "pods")
    found = audit_ledger(yard)
    assert any("the trigger 'pods_insert' on pods" in line for line in found.lines)
    assert not found.parts
    assert all(line.endswith("is back") for line in mend(yard, now_s=NOW_S))
    assert audit_ledger(yard).is_clean
    add_job(yard, "x")
    with pytest.raises(sa.exc.DBAPIError, match="held already"):
        add_pod(yard, "x-0", "x", "n004", 0b1)


def test_row_of_the_ledger_that_is_gone_is_made_anew(yard: Database) -> None:
    execute(yard, "UPDATE node_usage SET pods = 0 WHERE node = 'n001'")
    execute(yard, "DELETE FROM node_usage WHERE node = 'n001'")
    assert mend(yard, now_s=NOW_S)[0] == "node 'n001' has a row in the ledger again"
    assert audit_ledger(yard).is_clean


def test_health_follows_from_faults_again(yard: Database) -> None:
    execute(yard, "UPDATE nodes SET fenced = :yes WHERE name = 'n002'", yes=True)
    assert not audit_ledger(yard).is_clean
    assert mend(yard, now_s=NOW_S) == ["node 'n002': its health follows from its faults again"]
    assert audit_ledger(yard).is_clean


def test_what_people_have_to_decide_is_left_with_advice(database: Database) -> None:
    load_cluster(database, 2)
    bind(database, submit(database, make_spec("a", replicas=1)), ["n001"])
    switch_off_triggers(database, "node_usage")
    execute(database, "DELETE FROM node_usage WHERE node = 'n001'")
    switch_off_triggers(database, "nodes")
    execute(database, "DELETE FROM nodes WHERE name = 'n001'")
    mend(database, now_s=NOW_S)
    audit = audit_ledger(database)
    assert not audit.is_clean
    assert list(advice(audit)) == ["import the inventory again, with node 'n001' in it"]


def test_parts_are_set_aside_once_and_used_again_when_they_agree(
    yard: Database,
) -> None:
    execute(yard, NUMBERS["a node's GPUs"][0])
    parts = audit_ledger(yard).parts
    (said,) = set_parts_aside(yard, parts, now_s=NOW_S)
    assert said.startswith("node 'n001' takes nothing new, as an audit found: node 'n001': gpu_")
    assert set_parts_aside(yard, parts, now_s=NOW_S) == []
    world = load_world(yard)
    assert world.table.aside[world.topology.node_index["n001"]] == "mismatch"
    mend(yard, now_s=NOW_S)
    follow(yard, world)
    assert world.table.aside[world.topology.node_index["n001"]] is None
    with yard.read() as connection:
        assert all_standings(connection) == {}


def test_mismatch_is_told_after_what_people_want() -> None:
    from scheduler.model.standing import NodeStanding, standing_of_word

    assert aside_of(NodeStanding(mismatch="x"), 0.0) == "mismatch"
    assert aside_of(NodeStanding(mismatch="x", cordoned=True), 0.0) == "cordoned"
    assert aside_of(standing_of_word("mismatch"), 0.0) == "mismatch"


def test_gang_in_line_that_something_is_wrong_with_is_held_until_it_agrees(
    database: Database, log: Runner
) -> None:
    submit(database, make_spec("waits", replicas=4))
    settle(log)
    execute(database, "UPDATE jobs SET gpus_held = 3 WHERE name = 'waits'")
    set_parts_aside(database, audit_ledger(database).parts, now_s=NOW_S)
    settle(log)
    (job,) = (j for j in load_world(database).jobs.values() if j.spec.name == "waits")
    assert job.held
    mend(database, now_s=NOW_S)
    settle(log)
    (job,) = (j for j in load_world(database).jobs.values() if j.spec.name == "waits")
    assert not job.held
    assert not audit_ledger(database).parts


def test_doctor_names_mends_and_then_agrees(yard: Database) -> None:
    execute(yard, NUMBERS["a node's GPUs"][0])
    url = yard.url
    sick = CliRunner().invoke(app, ["doctor", "--database-url", url])
    assert sick.exit_code == 1
    assert "gpu_mask_used is 7" in sick.output
    assert "doctor --fix" in sick.output
    mended = CliRunner().invoke(app, ["doctor", "--fix", "--database-url", url])
    assert mended.exit_code == 0, mended.output
    assert "mended: node 'n001': gpu_mask_used was 7, is 3" in mended.output
    assert "the ledger agrees" in mended.output
