"""The schema itself refuses what would give a thing twice: everything here bypasses the code."""

import threading

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError

from api.store.engine import Database
from tests.api.store.raw import (
    INSERT_POD,
    add_job,
    add_node,
    add_pod,
    counts,
    execute,
    pod_values,
    used,
)


@pytest.fixture
def cluster(database: Database) -> Database:
    """Nodes a and b of 8 GPUs, 16 CPUs and 1000 MiB; jobs j and k."""
    add_node(database, "a", cpu=16_000, memory=1_000)
    add_node(database, "b", cpu=16_000, memory=1_000)
    add_job(database, "j")
    add_job(database, "k")
    return database


def test_ledger_follows_a_pod_through_its_life(cluster: Database) -> None:
    add_pod(cluster, "j-0", "j", "a", 0b1111, cpu_milli=2_000, memory_mib=100)
    assert used(cluster, "a") == (0b1111, 2_000, 100, 1)
    assert counts(cluster, "j") == (1, 0, 4)
    execute(cluster, "UPDATE pods SET state = 'running' WHERE uid = 'j-0'")
    assert used(cluster, "a") == (0b1111, 2_000, 100, 1)
    assert counts(cluster, "j") == (1, 1, 4)
    execute(cluster, "UPDATE pods SET state = 'lost' WHERE uid = 'j-0'")
    assert used(cluster, "a") == (0b1111, 2_000, 100, 1)
    assert counts(cluster, "j") == (1, 0, 4)
    execute(cluster, "UPDATE pods SET state = 'failed' WHERE uid = 'j-0'")
    assert used(cluster, "a") == (0, 0, 0, 0)
    assert counts(cluster, "j") == (0, 0, 0)
    execute(cluster, "UPDATE pods SET state = 'bound', attempt = 2, node = 'b' WHERE uid = 'j-0'")
    assert used(cluster, "a") == (0, 0, 0, 0)
    assert used(cluster, "b") == (0b1111, 2_000, 100, 1)
    execute(cluster, "DELETE FROM pods WHERE uid = 'j-0'")
    assert used(cluster, "b") == (0, 0, 0, 0)
    assert counts(cluster, "j") == (0, 0, 0)


@pytest.mark.parametrize(
    ("node", "mask", "more"),
    [
        pytest.param("a", 0b1000, {}, id="a GPU that is held"),
        pytest.param("a", 0b11111000, {}, id="one of several that is held"),
        pytest.param("a", 1 << 8, {}, id="a GPU beyond the node's"),
        pytest.param("a", -1, {}, id="a negative mask"),
        pytest.param("a", 0, {"cpu_milli": 15_000}, id="more CPU than is left"),
        pytest.param("a", 0, {"memory_mib": 901}, id="more memory than is left"),
        pytest.param("a", 0, {"cpu_milli": -1}, id="negative CPU"),
        pytest.param("nowhere", 0b1, {}, id="a node that is not there"),
        pytest.param("a", 0b10000, {"job_uid": "none"}, id="a job that is not there"),
    ],
)
def test_ledger_refuses_a_pod_that_takes(
    cluster: Database, node: str, mask: int, more: dict[str, object]
) -> None:
    add_pod(cluster, "j-0", "j", "a", 0b1111, cpu_milli=2_000, memory_mib=100)
    with pytest.raises(IntegrityError):
        add_pod(cluster, "k-0", "k", node, mask, **more)
    assert used(cluster, "a") == (0b1111, 2_000, 100, 1)
    assert counts(cluster, "k") == (0, 0, 0)


def test_ledger_takes_all_gpus_and_cpus_of_a_node_but_no_more(cluster: Database) -> None:
    add_pod(cluster, "j-0", "j", "a", 0xF0, cpu_milli=16_000, memory_mib=1_000)
    add_pod(cluster, "k-0", "k", "a", 0x0F)
    assert used(cluster, "a") == (0xFF, 16_000, 1_000, 2)
    with pytest.raises(IntegrityError):
        add_pod(cluster, "k-1", "k", "a", 0, cpu_milli=1)


def test_ledger_does_not_check_a_capacity_that_is_not_known(database: Database) -> None:
    add_node(database, "a")
    add_job(database, "j")
    add_pod(database, "j-0", "j", "a", 0b1, cpu_milli=10**9, memory_mib=10**9)
    assert used(database, "a") == (0b1, 10**9, 10**9, 1)


def test_ledger_keeps_62_gpus_apart(database: Database) -> None:
    add_node(database, "a", gpus=62)
    add_job(database, "j")
    add_pod(database, "j-0", "j", "a", 1 << 61)
    add_pod(database, "j-1", "j", "a", (1 << 61) - 1)
    assert used(database, "a")[0] == (1 << 62) - 1
    with pytest.raises(IntegrityError):
        add_pod(database, "j-2", "j", "a", 1 << 61)


def test_ledger_refuses_two_pods_of_one_statement_that_share_a_gpu(cluster: Database) -> None:
    with pytest.raises(IntegrityError), cluster.engine.begin() as connection:
        connection.execute(
            sa.text(INSERT_POD),
            [pod_values("j-0", "j", "a", 0b11), pod_values("k-0", "k", "a", 0b110)],
        )
    if not cluster.is_sqlite:
        add_pod(cluster, "j-0", "j", "a", 0b11)
        execute(cluster, "CREATE TABLE copied AS SELECT * FROM pods")
        execute(cluster, "DELETE FROM pods")
        add_pod(cluster, "j-1", "j", "a", 0b110)
        execute(cluster, "INSERT INTO copied SELECT * FROM pods")
        execute(cluster, "DELETE FROM pods")
        with pytest.raises(IntegrityError, match="held already"):
            execute(cluster, "INSERT INTO pods SELECT * FROM copied")
    assert used(cluster, "a") == (0, 0, 0, 0)


@pytest.mark.parametrize(
    "change",
    [
        "gpu_mask = 12, gpus = 2",
        "node = 'b'",
        "node = 'nowhere'",
        "gpu_mask = 512",
        "cpu_milli = 99000",
        "memory_mib = 99000",
        "uid = 'j-7'",
        "job_uid = 'k'",
    ],
)
def test_ledger_refuses_a_move_onto_what_is_held(cluster: Database, change: str) -> None:
    add_pod(cluster, "j-0", "j", "a", 0b0011)
    add_pod(cluster, "k-0", "k", "a", 0b0100)
    add_pod(cluster, "k-1", "k", "b", 0b0001)
    with pytest.raises(IntegrityError):
        execute(cluster, f"UPDATE pods SET {change} WHERE uid = 'j-0'")
    assert used(cluster, "a")[0] == 0b0111
    assert used(cluster, "b")[0] == 0b0001


def test_ledger_refuses_the_return_of_a_pod_whose_gpus_are_held_by_now(cluster: Database) -> None:
    add_pod(cluster, "j-0", "j", "a", 0b1)
    execute(cluster, "UPDATE pods SET state = 'stopped' WHERE uid = 'j-0'")
    add_pod(cluster, "k-0", "k", "a", 0b1)
    with pytest.raises(IntegrityError):
        execute(cluster, "UPDATE pods SET state = 'running' WHERE uid = 'j-0'")
    assert counts(cluster, "j") == (0, 0, 0)


def test_ledger_refuses_a_node_to_go_while_it_holds_live_pods(cluster: Database) -> None:
    add_pod(cluster, "j-0", "j", "a", 0b1)
    with pytest.raises(IntegrityError):
        execute(cluster, "DELETE FROM node_usage WHERE node = 'a'")
    with pytest.raises(IntegrityError):
        execute(cluster, "DELETE FROM nodes WHERE name = 'a'")
    execute(cluster, "UPDATE pods SET state = 'succeeded' WHERE uid = 'j-0'")
    execute(cluster, "DELETE FROM node_usage WHERE node = 'a'")
    execute(cluster, "DELETE FROM nodes WHERE name = 'a'")


def test_ledger_refuses_a_node_to_lose_a_gpu_that_is_held(cluster: Database) -> None:
    add_pod(cluster, "j-0", "j", "a", 0b10000000)
    with pytest.raises(IntegrityError):
        execute(cluster, "UPDATE node_usage SET gpu_mask_all = 15 WHERE node = 'a'")


def test_ledger_frees_what_a_deleted_job_held(cluster: Database) -> None:
    add_pod(cluster, "j-0", "j", "a", 0b1)
    add_pod(cluster, "j-1", "j", "b", 0b1)
    execute(cluster, "DELETE FROM jobs WHERE uid = 'j'")
    assert used(cluster, "a") == (0, 0, 0, 0)
    assert used(cluster, "b") == (0, 0, 0, 0)


def test_ledger_does_not_let_replace_or_truncate_pass_it_by(cluster: Database) -> None:
    add_pod(cluster, "j-0", "j", "a", 0b1)
    if cluster.is_sqlite:
        replace = INSERT_POD.replace("INSERT INTO", "INSERT OR REPLACE INTO", 1)
        execute(cluster, replace, **pod_values("j-0", "j", "b", 0b10))
        assert (used(cluster, "a")[0], used(cluster, "b")[0]) == (0, 0b10)
        assert counts(cluster, "j") == (1, 0, 1)
    else:
        with pytest.raises(DBAPIError):
            execute(cluster, "TRUNCATE pods CASCADE")
        assert used(cluster, "a")[0] == 0b1


def test_name_is_held_until_the_job_has_ended_and_its_last_pod_is_gone(cluster: Database) -> None:
    add_job(cluster, "first", name="n")
    add_pod(cluster, "first-0", "first", "a", 0b1)
    with pytest.raises(IntegrityError):
        add_job(cluster, "second", name="n")
    execute(cluster, "UPDATE jobs SET state = 'cancelled' WHERE uid = 'first'")
    with pytest.raises(IntegrityError):
        add_job(cluster, "second", name="n")
    execute(cluster, "UPDATE pods SET state = 'cancelled' WHERE uid = 'first-0'")
    add_job(cluster, "second", name="n")
    with pytest.raises(IntegrityError):
        execute(cluster, "UPDATE pods SET state = 'lost' WHERE uid = 'first-0'")


def test_two_leaders_at_once_cannot_both_take_a_gpu(cluster: Database) -> None:
    """Each in a transaction of its own, begun before the other committed."""
    if cluster.is_sqlite:
        pytest.skip("SQLite has one writer at a time")
    first = cluster.engine.connect()
    first.begin()
    first.execute(sa.text(INSERT_POD), pod_values("j-0", "j", "a", 0b1))
    found: list[Exception] = []

    def second() -> None:
        try:
            add_pod(cluster, "k-0", "k", "a", 0b1)
        except IntegrityError as error:
            found.append(error)

    other = threading.Thread(target=second)
    other.start()
    _wait_until_blocked(cluster)
    first.commit()
    first.close()
    other.join(10)
    assert len(found) == 1
    assert used(cluster, "a") == (0b1, 0, 0, 1)


def _wait_until_blocked(database: Database) -> None:
    """Until a session of this database waits for a lock."""
    query = (
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    for _ in range(10_000):
        with database.engine.connect() as connection:
            if connection.execute(sa.text(query)).scalar_one():
                return
    raise TimeoutError("nobody waits")
