"""The schema refuses claims that meet, and pods on what another gang has claimed: raw SQL alone."""

import threading
from dataclasses import replace

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError

from api.schemas.spec import dump_spec
from api.store.engine import Database
from scheduler.model.job import JobSpec
from tests.api.store.raw import (
    INSERT_CLAIM,
    add_claim,
    add_job,
    add_node,
    add_pod,
    claim_values,
    execute,
    used,
)


@pytest.fixture
def cluster(database: Database) -> Database:
    """Nodes a and b of 8 GPUs; jobs j and k."""
    add_node(database, "a")
    add_node(database, "b")
    add_job(database, "j", state="reserved")
    add_job(database, "k")
    return database


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"mask": 0b1000, "job": "k"}, id="a GPU that is claimed"),
        pytest.param({"mask": 0b11111000, "job": "k"}, id="one of several that is claimed"),
        pytest.param({"mask": 0b1000}, id="a GPU that its own gang has claimed"),
        pytest.param({"mask": 1 << 8}, id="a GPU beyond the node's"),
        pytest.param({"mask": -1}, id="a negative mask"),
        pytest.param({"node": "nowhere"}, id="a node that is not there"),
        pytest.param({"mask": 0, "node": "nowhere"}, id="nothing of a node that is not there"),
        pytest.param({"mask": 0b10000, "job": "none"}, id="a job that is not there"),
        pytest.param({"mask": 0b10000, "cpu": -1}, id="negative CPU"),
        pytest.param({"mask": 0b10000, "starts": -1.0}, id="a time before all times"),
        pytest.param({"mask": 0b10000, "starts": 5.0, "until": 5.0}, id="no time at all"),
        pytest.param({"mask": 0b10000, "job": None}, id="something for nobody"),
        pytest.param({"mask": 0b10000, "window": "w"}, id="something for a job and a window"),
        pytest.param({"mask": 0b10000, "job": None, "window": "w"}, id="a gang's kind for people"),
        pytest.param({"mask": 0b10000, "why": "maintenance"}, id="maintenance for a gang"),
    ],
)
def test_schema_refuses_a_claim_on(cluster: Database, more: dict[str, object]) -> None:
    add_claim(cluster, "c-0", 0b1111)
    values = claim_values("c-1") | more
    with pytest.raises(IntegrityError):
        execute(cluster, INSERT_CLAIM, **values)
    assert claims(cluster) == {"c-0": 0b1111}


def test_claims_side_by_side_are_taken(cluster: Database) -> None:
    add_claim(cluster, "c-0", 0x0F)
    add_claim(cluster, "c-1", 0xF0, job="k")
    add_claim(cluster, "c-2", 0xFF, node="b")
    add_claim(cluster, "c-3", 0)
    assert len(claims(cluster)) == 4


def test_claims_one_after_the_other_are_taken(cluster: Database) -> None:
    add_claim(cluster, "c-0", 0xFF, why="reservation", starts=100.0, until=200.0)
    add_claim(
        cluster, "c-1", 0xFF, why="maintenance", job=None, window="w", starts=0.0, until=100.0
    )
    add_claim(cluster, "c-2", 0xFF, job="k", starts=200.0)
    for starts, until in (
        (0.0, None),
        (150.0, 160.0),
        (50.0, 101.0),
        (199.0, 300.0),
        (300.0, 301.0),
    ):
        with pytest.raises(IntegrityError):
            add_claim(cluster, "c-3", 0b1, starts=starts, until=until)


def test_claim_that_grows_or_comes_back_meets_no_other(cluster: Database) -> None:
    add_claim(cluster, "c-0", 0x0F)
    add_claim(cluster, "c-1", 0xF0, job="k")
    add_claim(cluster, "c-2", 0xFF, node="b")
    for change in ("gpu_mask = 31", "node = 'b'"):
        with pytest.raises(IntegrityError):
            execute(cluster, f"UPDATE claims SET {change} WHERE uid = 'c-0'")
    execute(cluster, "UPDATE claims SET gone = true WHERE uid = 'c-0'")
    execute(cluster, "UPDATE claims SET gpu_mask = 255 WHERE uid = 'c-1'")
    with pytest.raises(IntegrityError):
        execute(cluster, "UPDATE claims SET gone = false WHERE uid = 'c-0'")
    execute(cluster, "UPDATE claims SET gone = true WHERE uid = 'c-1'")
    execute(cluster, "UPDATE claims SET gone = false WHERE uid = 'c-0'")
    assert claims(cluster) == {"c-0": 0x0F, "c-2": 0xFF}


def test_claim_that_moves_in_time_meets_no_other(cluster: Database) -> None:
    add_claim(cluster, "c-0", 0xFF, why="reservation", starts=100.0)
    add_claim(cluster, "c-1", 0xFF, job="k", until=100.0)
    execute(cluster, "UPDATE claims SET starts_at = 150 WHERE uid = 'c-0'")
    with pytest.raises(IntegrityError):
        execute(cluster, "UPDATE claims SET starts_at = 99 WHERE uid = 'c-0'")
    with pytest.raises(IntegrityError):
        execute(cluster, "UPDATE claims SET until_at = NULL WHERE uid = 'c-1'")


@pytest.mark.parametrize("change", ["uid = 'x'", "job_uid = 'k'"])
def test_claim_keeps_its_uid_and_its_owner(cluster: Database, change: str) -> None:
    add_claim(cluster, "c-0")
    with pytest.raises(IntegrityError):
        execute(cluster, f"UPDATE claims SET {change} WHERE uid = 'c-0'")


def test_claim_may_lie_over_pods_that_have_yet_to_leave(cluster: Database) -> None:
    add_pod(cluster, "k-0", "k", "a", 0xFF)
    add_claim(cluster, "c-0", 0xFF)
    execute(cluster, "UPDATE pods SET state = 'running' WHERE uid = 'k-0'")
    execute(cluster, "UPDATE pods SET state = 'terminating' WHERE uid = 'k-0'")
    execute(cluster, "UPDATE pods SET state = 'stopped' WHERE uid = 'k-0'")
    assert used(cluster, "a") == (0, 0, 0, 0)


@pytest.mark.parametrize("why", ["preemption", "recovery", "spare"])
def test_pod_does_not_take_what_another_gang_has_claimed(cluster: Database, why: str) -> None:
    add_claim(cluster, "c-0", 0b0110, why=why)
    with pytest.raises(IntegrityError):
        add_pod(cluster, "k-0", "k", "a", 0b0010)
    add_pod(cluster, "k-0", "k", "a", 0b1001)
    with pytest.raises(IntegrityError):
        execute(cluster, "UPDATE pods SET gpu_mask = 3 WHERE uid = 'k-0'")
    execute(cluster, "UPDATE pods SET state = 'stopped', gpu_mask = 3 WHERE uid = 'k-0'")
    with pytest.raises(IntegrityError):
        execute(cluster, "UPDATE pods SET state = 'bound' WHERE uid = 'k-0'")
    assert used(cluster, "a") == (0, 0, 0, 0)


def test_pod_of_a_gang_that_can_leave_at_once_may_use_a_spare_alone(cluster: Database) -> None:
    add_job(cluster, "b", spec=dump_spec(JobSpec(name="b")))
    for number, why in enumerate(("preemption", "recovery")):
        add_claim(cluster, f"c-{number}", 1 << number, why=why)
        with pytest.raises(IntegrityError):
            add_pod(cluster, f"b-{number}", "b", "a", 1 << number)
    add_claim(cluster, "c-2", 0b100, why="spare")
    add_pod(cluster, "b-2", "b", "a", 0b100)
    # Its place is given away under it; it is not taken there anew.
    execute(cluster, "UPDATE claims SET gone = true WHERE uid = 'c-2'")
    add_claim(cluster, "c-3", 0b100, why="recovery")
    execute(cluster, "UPDATE pods SET state = 'terminating' WHERE uid = 'b-2'")
    execute(cluster, "UPDATE pods SET state = 'stopped' WHERE uid = 'b-2'")
    with pytest.raises(IntegrityError):
        execute(cluster, "UPDATE pods SET state = 'bound' WHERE uid = 'b-2'")


@pytest.mark.parametrize("changes", [{"preemptible": False}, {"grace_s": 0.0}])
def test_pod_of_a_gang_that_cannot_leave_at_once_does_not_use_a_spare(
    cluster: Database, changes: dict[str, object]
) -> None:
    spec = replace(JobSpec(name="b"), **changes)  # type: ignore[arg-type]  # fields by name
    add_job(cluster, "b", spec=dump_spec(spec))
    add_claim(cluster, "c-0", 0b01, why="spare")
    add_claim(cluster, "c-1", 0b10, why="pool", job=None, window="rack/r1")
    for mask in (0b01, 0b10):
        with pytest.raises(IntegrityError):
            add_pod(cluster, "b-0", "b", "a", mask)


def test_pool_is_of_a_domain_and_of_no_gang(cluster: Database) -> None:
    add_claim(cluster, "c-0", 0b1, why="pool", job=None, window="rack/r1")
    for more in ({"window": ""}, {"job": "k"}, {"job": "k", "window": ""}):
        values = claim_values("c-1") | {"mask": 0b10, "why": "pool", "job": None} | more
        with pytest.raises(IntegrityError):
            execute(cluster, INSERT_CLAIM, **({"window": "rack/r1"} | values | more))
    add_job(cluster, "b", spec=dump_spec(JobSpec(name="b")))
    add_pod(cluster, "b-0", "b", "a", 0b1)


def test_gang_takes_what_it_has_claimed_itself(cluster: Database) -> None:
    add_claim(cluster, "c-0", 0b0110)
    add_pod(cluster, "j-0", "j", "a", 0b0110)
    assert used(cluster, "a") == (0b0110, 0, 0, 1)


@pytest.mark.parametrize("why", ["reservation", "maintenance"])
def test_pod_may_take_what_is_kept_for_later(cluster: Database, why: str) -> None:
    """Whether it ends in time is for the leader to say, who knows the hour."""
    owner = {"job": None, "window": "w"} if why == "maintenance" else {}
    add_claim(cluster, "c-0", 0xFF, why=why, starts=100.0, **owner)
    add_pod(cluster, "k-0", "k", "a", 0xFF)


def test_claim_that_is_gone_keeps_nobody_off(cluster: Database) -> None:
    add_claim(cluster, "c-0", 0xFF)
    execute(cluster, "UPDATE claims SET gone = true WHERE uid = 'c-0'")
    add_pod(cluster, "k-0", "k", "a", 0xFF)
    add_claim(cluster, "c-1", 0xFF)


def test_claims_go_with_the_record_of_their_job(cluster: Database) -> None:
    add_claim(cluster, "c-0", 0xFF)
    execute(cluster, "DELETE FROM jobs WHERE uid = 'j'")
    assert claims(cluster) == {}


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
def test_of_two_claims_at_once_the_later_is_refused(cluster: Database) -> None:
    """Each has looked before the other has committed; the ledger's row makes the second wait."""
    first = cluster.engine.connect()
    first.execute(sa.text(INSERT_CLAIM), claim_values("c-0"))
    refused: list[DBAPIError] = []

    def second() -> None:
        try:
            add_claim(cluster, "c-1", job="k")
        except DBAPIError as error:
            refused.append(error)

    thread = threading.Thread(target=second)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    first.commit()
    first.close()
    thread.join()
    assert len(refused) == 1
    assert claims(cluster) == {"c-0": 0b1}


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
def test_of_a_claim_and_a_pod_at_once_the_pod_is_refused(cluster: Database) -> None:
    first = cluster.engine.connect()
    first.execute(sa.text(INSERT_CLAIM), claim_values("c-0"))
    refused: list[DBAPIError] = []

    def second() -> None:
        try:
            add_pod(cluster, "k-0", "k", "a", 0b1)
        except DBAPIError as error:
            refused.append(error)

    thread = threading.Thread(target=second)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    first.commit()
    first.close()
    thread.join()
    assert len(refused) == 1
    assert used(cluster, "a") == (0, 0, 0, 0)


def claims(database: Database) -> dict[str, int]:
    """Claims that are not gone, with their masks."""
    with database.read() as connection:
        found = connection.execute(sa.text("SELECT uid, gpu_mask FROM claims WHERE NOT gone"))
        return dict(found.all())
