"""Imports: merged with what is there, refused whole, and never at the cost of what runs."""

from dataclasses import replace

import pytest

from api.store import inventory as module
from api.store.commit import commit
from api.store.engine import Database
from api.store.errors import NotFound
from api.store.events import current_revision, list_events
from api.store.ledger import audit_ledger
from api.store.nodes import cordon_node, get_node, import_inventory, list_nodes
from api.store.topology import build_stored, load_topology
from api.store.views import ImportResult
from scheduler.errors import InventoryError
from scheduler.model.lifecycle import JobState
from scheduler.model.node import (
    FabricLevel,
    Inventory,
    NodeRecord,
    NodeType,
    RackRecord,
    Taint,
    TaintEffect,
)
from scheduler.model.plan import Plan
from scheduler.model.resources import Resources
from scheduler.topology.build import Built
from tests.api.store.build import NOW_S, bind, job_move, load_cluster, make_pod, make_spec, submit
from tests.builders import make_inventory, make_node, make_type


def load(
    database: Database, inventory: Inventory, *, prune: bool = False, dry_run: bool = False
) -> ImportResult:
    return import_inventory(database, inventory, prune=prune, dry_run=dry_run, now_s=NOW_S)


def counts(result: ImportResult) -> tuple[int, int, int, int, int]:
    return (result.created, result.updated, result.unchanged, result.removed, result.kept)


def small(*nodes: NodeRecord, **more: object) -> Inventory:
    """An inventory of these nodes of 8 GPUs, with levels rack and node."""
    kind = make_type()
    base = Inventory("c", ("rack", "node"), "node", {kind.name: kind}, nodes)
    return replace(base, **more)  # type: ignore[arg-type]  # fields by name


def names(database: Database) -> list[str]:
    return [node.name for node in list_nodes(database).items]


def test_cluster_is_empty_before_the_first_import(database: Database) -> None:
    built = load_topology(database)
    assert built.topology.node_count == 0
    assert built.topology.level_names == ("block", "leaf", "rack", "node")
    assert list_nodes(database).items == ()


def test_import_is_read_back_as_it_was_given(database: Database) -> None:
    node = replace(
        make_node("n1", rack="r1"),
        labels={"zone": "a", "ü": "é"},
        taints=(Taint("k", "v", TaintEffect.NO_EXECUTE),),
    )
    given = small(
        node,
        racks=(RackRecord("r1", 45_000, "cdu-1"),),
        sets={"power": {"p1": ("n1",)}},
        fabric={"rack": FabricLevel(400.0, 2.0)},
    )
    assert counts(load(database, given)) == (1, 0, 0, 0, 0)
    topology = load_topology(database).topology
    assert topology.nodes == (node,)
    assert topology.types == (make_type(),)
    assert (topology.racks, topology.sets) == (
        {"r1": given.racks[0]},
        {"power": {"p1": ("n1",)}},
    )
    assert (topology.fabric, topology.cluster) == (given.fabric, "c")
    view = get_node(database, "n1")
    assert (view.labels, view.taints, view.places) == (node.labels, node.taints, {"rack": "r1"})
    assert (view.gpu, view.gpus, view.gpus_free, view.pods) == ("H100-80GB", 8, 8, 0)
    assert (view.cpu_milli, view.memory_mib) == (112_000, 2_048 * 1_024)
    assert view.is_usable


def test_same_import_again_changes_nothing(database: Database) -> None:
    inventory = load_cluster(database, 8)
    revision = current_revision(database)
    for prune in (False, True):
        result = load(database, inventory, prune=prune)
        assert counts(result) == (0, 0, 8, 0, 0)
        assert result.revision == current_revision(database) == revision


def test_import_is_one_event(database: Database) -> None:
    load_cluster(database, 8)
    event = list_events(database, 0).items[0]
    assert (event.revision, event.kind) == (1, "inventory.imported")
    assert (event.message, event.body["created"]) == ("nodes: 8 created", 8)
    assert {node.revision for node in list_nodes(database).items} == {1}


def test_nodes_that_are_not_named_stay_unless_pruned(database: Database) -> None:
    load(database, small(make_node("a", rack="r1"), make_node("b", rack="r1")))
    more = small(make_node("b", rack="r2"), make_node("c", rack="r2"))
    assert counts(load(database, more)) == (1, 1, 0, 0, 0)
    assert names(database) == ["a", "b", "c"]
    assert counts(load(database, more, prune=True)) == (0, 0, 2, 1, 0)
    assert names(database) == ["b", "c"]
    with pytest.raises(NotFound):
        get_node(database, "a")
    assert list_events(database, 2).items[0].body["removed_names"] == ["a"]


def test_dry_run_tells_what_would_change_and_changes_nothing(database: Database) -> None:
    load(database, small(make_node("a", rack="r1")))
    result = load(database, small(make_node("b", rack="r1")), prune=True, dry_run=True)
    assert counts(result) == (1, 0, 0, 1, 0)
    assert names(database) == ["a"]
    assert current_revision(database) == 1


def test_import_that_makes_no_topology_is_refused_whole(database: Database) -> None:
    load(database, small(make_node("a", rack="r1")))
    good = make_node("b", rack="r1")
    for bad in (
        small(good, make_node("c", "unknown", rack="r1")),
        small(good, good),
        small(good, levels=("rack", "rack", "node")),
        small(good, scale_up="row"),
        small(good, fabric={"row": FabricLevel(1.0)}),
    ):
        for dry_run in (True, False):
            with pytest.raises(InventoryError):
                load(database, bad, dry_run=dry_run)
    assert names(database) == ["a"]
    assert current_revision(database) == 1


def test_domain_in_two_parents_is_left_out_with_a_warning(database: Database) -> None:
    levels = ("leaf", "rack", "node")
    load(database, small(make_node("a", rack="r1", leaf="l1"), levels=levels))
    result = load(database, small(make_node("b", rack="r1", leaf="l2"), levels=levels))
    assert len(result.warnings) == 1
    assert all(word in result.warnings[0] for word in ("r1", "l1", "l2"))
    assert get_node(database, "a").places == {"leaf": "l1", "rack": None}


def test_import_may_change_the_levels_and_back(database: Database) -> None:
    load(database, small(make_node("a", rack="r1"), make_node("b", rack="r1")))
    row = replace(small(make_node("a", row="w1")), levels=("row", "node"))
    taken = load(database, row)
    assert counts(taken) == (0, 1, 0, 0, 0)
    assert "level 'rack' goes: it was not given; 2 nodes have a place there" in taken.warnings
    assert get_node(database, "a").places == {"row": "w1"}
    assert get_node(database, "b").places == {"row": None}
    load(database, small(make_node("a", rack="r2")))
    assert get_node(database, "b").places == {"rack": "r1"}


def test_order_of_announcements_does_not_matter(database: Database) -> None:
    nodes = [make_node(f"n{i}", rack=f"r{i // 2}") for i in range(6)]
    for index in (4, 0, 5, 2, 1, 3):
        load(database, small(nodes[index]))
    announced = load_topology(database).topology
    load(database, small(*nodes), prune=True)
    assert load_topology(database).topology == announced


def test_node_that_holds_a_live_pod_is_never_removed(database: Database) -> None:
    load_cluster(database)
    bind(database, submit(database, make_spec("a", replicas=1)), ["n001"], mask=0b1)
    only = make_inventory({"block": 1, "leaf": 1, "rack": 2, "node": 2})
    only = replace(only, nodes=only.nodes[3:])
    result = load(database, only, prune=True)
    assert counts(result) == (0, 0, 1, 2, 1)
    assert result.warnings == ("node 'n001' was not given but holds live pods; it stays",)
    assert names(database) == ["n001", "n004"]
    assert audit_ledger(database).is_clean


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (make_type("small", gpus=4), "holds GPU 7; 'small' has 4 GPUs"),
        (replace(make_type("small"), capacity=Resources(1_000, 0)), "hold 2 CPUs; 'small' has 1"),
        (
            replace(make_type("small"), capacity=Resources(0, 99)),
            "hold 100 MiB; 'small' has 99 MiB",
        ),
    ],
)
def test_node_does_not_lose_what_its_live_pods_hold(
    database: Database, kind: NodeType, said: str
) -> None:
    load_cluster(database)
    job = submit(database, make_spec("a", replicas=1))
    pods = (make_pod(job, 0, "n001", mask=0x80, resources=Resources(2_000, 100)),)
    plan = Plan(current_revision(database), job_moves=(job_move(job, JobState.BOUND),), pods=pods)
    commit(database, plan, 0, NOW_S)
    given = make_inventory({"block": 1, "leaf": 1, "rack": 2, "node": 2}, node_type=kind)
    result = load(database, given)
    assert counts(result) == (0, 3, 1, 0, 1)
    assert said in result.warnings[0]
    assert (get_node(database, "n001").type, get_node(database, "n002").type) == (
        "h100-8",
        "small",
    )
    # The same under the same name: the type itself stays as it was.
    renamed = replace(kind, name="h100-8")
    result = load(database, replace(given, node_types={"h100-8": renamed}, nodes=()))
    assert "type 'h100-8' stays as it was: on node 'n001'" in result.warnings[0]
    assert get_node(database, "n001").gpus == 8


def test_changed_type_changes_its_nodes(database: Database) -> None:
    load(database, small(make_node("a", rack="r1"), make_node("b", rack="r1")))
    bigger = replace(make_type(), gpus=16, capacity=Resources(1, 2))
    given = replace(small(make_node("a", rack="r1")), node_types={bigger.name: bigger})
    assert counts(load(database, given)) == (0, 2, 0, 0, 0)
    for name in ("a", "b"):
        view = get_node(database, name)
        assert (view.gpus, view.gpus_free, view.cpu_milli, view.revision) == (16, 16, 1, 2)


def test_racks_sets_and_fabric_are_merged_and_replaced_by_prune(database: Database) -> None:
    node = make_node("a", rack="r1")
    parts = {
        "racks": (RackRecord("r1", 10),),
        "sets": {"power": {"p1": ("a",)}},
        "fabric": {"rack": FabricLevel(1.0)},
    }
    load(database, small(node, **parts))
    other = small(
        node,
        racks=(RackRecord("r2", 20),),
        sets={"power": {"p2": ("a",)}, "water": {"w": ("a",)}},
        fabric={"node": FabricLevel(2.0)},
    )
    load(database, other)
    topology = load_topology(database).topology
    assert set(topology.racks) == {"r1", "r2"}
    assert set(topology.fabric) == {"rack", "node"}
    assert {k: set(v) for k, v in topology.sets.items()} == {"power": {"p1", "p2"}, "water": {"w"}}
    load(database, other, prune=True)
    topology = load_topology(database).topology
    assert set(topology.racks) == {"r2"}
    assert set(topology.fabric) == {"node"}
    assert {k: set(v) for k, v in topology.sets.items()} == {"power": {"p2"}, "water": {"w"}}


def test_cordon_outlives_an_import(database: Database) -> None:
    load_cluster(database)
    cordon_node(database, "n001", reason="disk", by="ann", now_s=NOW_S)
    load(database, small(make_node("n001", rack="r9")))
    node = get_node(database, "n001")
    assert node.cordon == {"reason": "disk", "by": "ann", "at": NOW_S}
    assert node.places == {"rack": "r9"}


def test_node_that_comes_back_comes_back_fresh(database: Database) -> None:
    load(database, small(make_node("a", rack="r1"), make_node("b", rack="r1")))
    cordon_node(database, "a", reason="", by="", now_s=NOW_S)
    load(database, small(make_node("b", rack="r1")), prune=True)
    load(database, small(make_node("a", rack="r1")))
    assert get_node(database, "a").cordon is None


def test_topology_is_built_once_for_each_inventory(database: Database) -> None:
    load_cluster(database)
    first = load_topology(database)
    submit(database, "a")
    assert load_topology(database) is first
    load_cluster(database, 8)
    assert load_topology(database) is not first


def test_import_takes_account_of_one_that_came_while_it_was_built(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(database, small(make_node("a", rack="r1")))
    calls: list[int] = []

    def slow(inventory: Inventory) -> Built:
        calls.append(len(inventory.nodes))
        if len(calls) == 1:
            load(database, small(make_node("b", rack="r2")))
        return build_stored(inventory)

    monkeypatch.setattr(module, "build_stored", slow)
    result = load(database, small(make_node("c", rack="r3")))
    assert counts(result) == (1, 0, 0, 0, 0)
    assert calls == [2, 2, 3]
    assert names(database) == ["a", "b", "c"]
    assert load_topology(database).topology.node_count == 3


def test_large_import_is_written_in_bulk(database: Database) -> None:
    inventory = make_inventory({"block": 4, "leaf": 4, "rack": 8, "node": 16})
    assert counts(load(database, inventory)) == (2_048, 0, 0, 0, 0)
    fewer = replace(inventory, nodes=inventory.nodes[:8])
    assert counts(load(database, fewer, prune=True)) == (0, 0, 8, 2_040, 0)
