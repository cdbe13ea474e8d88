"""A ledger that was damaged by hand: found, named, and mended without a pod being touched."""

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from api.command import app
from api.store.engine import Database
from api.store.ledger import audit_ledger
from api.store.mending import advice, mend
from api.store.snapshot import follow, load_world
from tests.api.store.build import NOW_S, bind, load_cluster, make_spec, submit
from tests.api.store.raw import add_claim, execute, switch_off_triggers

DAMAGES = {
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


def all_pods(database: Database) -> list[object]:
    with database.read() as connection:
        query = sa.text("SELECT * FROM pods ORDER BY uid")
        return [tuple(row) for row in connection.execute(query)]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named_and_mended_without_touching_gangs(yard: Database, damage: str) -> None:
    statement, said = DAMAGES[damage]
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


def test_claim_left_by_a_job_that_ended_goes_and_followers_learn_of_it(yard: Database) -> None:
    uid = submit(yard, make_spec("gone", replicas=1)).uid
    add_claim(yard, "gone-0", 0xFF, node="n002", job=uid)
    world = load_world(yard)
    assert len(world.claims) == 1
    switch_off_triggers(yard, "jobs")
    execute(yard, "UPDATE jobs SET state = 'failed' WHERE name = 'gone'")
    assert "which has ended" in str(audit_ledger(yard).claim_faults)
    assert mend(yard, now_s=NOW_S) == [f"claim 'gone-0' of job '{uid}', which has ended, is gone"]
    assert audit_ledger(yard).is_clean
    follow(yard, world)
    assert world.claims == {}


def test_what_people_have_to_decide_is_left_with_advice(yard: Database) -> None:
    execute(yard, "UPDATE node_usage SET pods = 0 WHERE node = 'n001'")
    execute(yard, "DELETE FROM node_usage WHERE node = 'n001'")
    assert mend(yard, now_s=NOW_S) == []
    audit = audit_ledger(yard)
    assert not audit.is_clean
    assert list(advice(audit)) == ["import the inventory again, with node 'n001' in it"]


def test_doctor_names_mends_and_then_agrees(yard: Database) -> None:
    execute(yard, DAMAGES["a node's GPUs"][0])
    url = yard.url
    sick = CliRunner().invoke(app, ["doctor", "--database-url", url])
    assert sick.exit_code == 1
    assert "gpu_mask_used is 7" in sick.output
    assert "doctor --fix" in sick.output
    mended = CliRunner().invoke(app, ["doctor", "--fix", "--database-url", url])
    assert mended.exit_code == 0, mended.output
    assert "mended: node 'n001': gpu_mask_used was 7, is 3" in mended.output
    assert "the ledger agrees" in mended.output
