"""The door: requests against the map and the queues."""

import pytest

from api.admission.admit import Door, NeverFits
from api.schemas.job import JobBody
from api.store.engine import Database
from api.store.nodes import cordon_node, import_inventory
from api.store.queues import create_queue
from scheduler.errors import JobError
from scheduler.model.queue import QueueRecord
from tests.builders import make_inventory


@pytest.fixture
def door(database: Database) -> Door:
    """The door of a cluster of 2 leaves x 2 racks x 4 nodes of 8 GPUs."""
    inventory = make_inventory({"leaf": 2, "rack": 2, "node": 4})
    import_inventory(database, inventory, prune=False, dry_run=False, now_s=0.0)
    create_queue(database, QueueRecord("team", namespaces=("ns",), max_priority=10), now_s=0.0)
    return Door(database)


def body(**fields: object) -> JobBody:
    return JobBody.model_validate({"name": "a", "parallelism": {"tp": 8, "pp": 4}} | fields)


def refused(door: Door, request: JobBody) -> dict[str, str]:
    with pytest.raises(JobError) as error:
        door.admit(request)
    return {p.path: p.message for p in error.value.problems}


def test_job_that_fits_is_let_in(door: Door) -> None:
    assert door.admit(body()).spec.gpu_count == 32


def test_hostlists_of_nodes_are_written_out_once_each(door: Door) -> None:
    read = door.admit(body(parallelism={"tp": 8}, nodes=["n[001-003]", "n002", "n010"]))
    assert read.spec.nodes == ("n001", "n002", "n003", "n010")
    assert read.body["nodes"] == ["n[001-003]", "n002", "n010"]


def test_hostlists_together_stand_for_so_many_names_at_most(door: Door) -> None:
    found = refused(door, body(nodes=["n[1-60000]", "m[1-60000]"]))
    assert "100000" in found["nodes[1]"]


def test_unknown_level_lists_the_levels(door: Door) -> None:
    found = refused(door, body(topology=[{"group": "pp", "within": "rak"}]))
    assert "leaf, rack, node" in found["topology[0].within"]


def test_unknown_queue_is_named(door: Door) -> None:
    assert "'nope'" in refused(door, body(queue="nope"))["queue"]


def test_queue_lets_in_its_namespaces_and_priorities_alone(door: Door) -> None:
    assert set(refused(door, body(queue="team", priority=11))) == {"queue", "priority"}
    door.admit(body(queue="team", priority=10, namespace="ns"))


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"parallelism": {"tp": 8, "dp": 17}}, "parallelism"),
        ({"gpu": "B300"}, "parallelism"),
        (
            {
                "parallelism": {"tp": 8, "pp": 5},
                "topology": [
                    {"group": "job", "within": "leaf", "mode": "preferred"},
                    {"group": "pp", "within": "rack"},
                ],
            },
            "topology[1].within",
        ),
        (
            {"parallelism": None, "roles": [{"name": "w", "replicas": 17, "gpus": 8}]},
            "roles",
        ),
        (
            {
                "parallelism": None,
                "roles": [
                    {"name": "v", "replicas": 1},
                    {"name": "w", "replicas": 5, "gpus": 8, "topology": [{"within": "rack"}]},
                ],
            },
            "roles[1].topology",
        ),
        (
            {
                "parallelism": None,
                "roles": [
                    {
                        "name": "w",
                        "replicas": 10,
                        "gpus": 8,
                        "parts": {"size": 5, "count": 2, "topology": [{"within": "rack"}]},
                    }
                ],
            },
            "roles[0].parts.topology",
        ),
    ],
)
def test_job_that_never_fits_is_refused_where_it_asks_too_much(
    door: Door, fields: dict[str, object], path: str
) -> None:
    with pytest.raises(NeverFits) as error:
        door.admit(body(**fields))
    assert [p.path for p in error.value.problems] == [path]
    assert error.value.verdict.never


def test_job_that_never_fits_may_wait(door: Door) -> None:
    door.admit(body(parallelism={"tp": 8, "dp": 17}, if_never_fits="wait"))


def test_cordons_do_not_make_a_job_impossible(door: Door, database: Database) -> None:
    for index in range(1, 17):
        cordon_node(database, f"n{index:03d}", reason="", by="", now_s=0.0)
    door.admit(body())


def test_larger_map_lets_in_what_did_not_fit(door: Door, database: Database) -> None:
    big = body(parallelism={"tp": 8, "dp": 17})
    with pytest.raises(NeverFits):
        door.admit(big)
    more = make_inventory({"leaf": 2, "rack": 2, "node": 8})
    import_inventory(database, more, prune=True, dry_run=False, now_s=0.0)
    door.admit(big)
