"""Commits of maintenance windows, and what imports do to nodes that are claimed."""

from dataclasses import replace

import sqlalchemy as sa

from api.store.commit import commit
from api.store.engine import Database
from api.store.events import current_revision, list_events, trim_history
from api.store.ledger import audit_ledger
from api.store.nodes import cordon_node, import_inventory
from api.store.snapshot import follow, load_world
from api.store.windows import create_window, delete_window, end_windows, list_windows
from scheduler.model.claim import Claim, ClaimWhy, Window
from scheduler.model.ids import ClaimId, NodeId
from scheduler.model.plan import Plan
from tests.api.store.build import (
    NOW_S,
    load_cluster,
    submit,
)
from tests.api.store.claiming import (
    claimed,
    claims_of,
)
from tests.api.store.test_snapshot import same
from tests.builders import make_inventory, make_type


def window_plan(database: Database, nodes: list[str]) -> Plan:
    claims = tuple(
        Claim(
            uid=ClaimId(f"window-w-{node}"),
            why=ClaimWhy.MAINTENANCE,
            node=NodeId(node),
            gpu_mask=0xFF,
            window="w",
            starts_s=NOW_S + 100,
            until_s=NOW_S + 200,
        )
        for node in nodes
    )
    return Plan(current_revision(database), claims=claims)


def make_window(database: Database, *nodes: str) -> None:
    names = tuple(NodeId(node) for node in nodes)
    window = Window("w", names, NOW_S + 100, NOW_S + 200, "new cables")
    create_window(database, window, now_s=NOW_S)


def test_window_becomes_claims_and_ends(database: Database) -> None:
    load_cluster(database)
    world = load_world(database)
    make_window(database, "n001", "n002")
    assert follow(database, world)
    assert list(world.windows) == ["w"]
    plan = window_plan(database, ["n001", "n002"])
    done = commit(database, plan, 0, NOW_S)
    assert done.events == {"reservation.claims": 1}
    assert list_windows(database).items[0].claimed == 2
    assert follow(database, world)
    assert world.claims == load_world(database).claims
    since = current_revision(database)
    ends = Plan(since, claims_gone=tuple(claim.uid for claim in plan.claims))
    commit(database, ends, 0, NOW_S + 200)
    (event,) = list_events(database, since).items
    assert (event.kind, event.subject_kind, event.name) == ("reservation.ended", "reservation", "w")
    assert list_windows(database).items == ()
    assert follow(database, world)
    assert (world.windows, world.claims) == ({}, {})


def test_window_that_is_over_and_was_never_claimed_is_forgotten(database: Database) -> None:
    """As when all its nodes were kept for gangs, or are gone."""
    load_cluster(database)
    make_window(database, "n001")
    world = load_world(database)
    assert end_windows(database, now_s=NOW_S + 199) == 0
    since = current_revision(database)
    assert end_windows(database, now_s=NOW_S + 200) == 1
    assert [event.kind for event in list_events(database, since).items] == ["reservation.ended"]
    assert follow(database, world)
    assert world.windows == {}


def test_window_that_is_over_but_claimed_is_left_to_the_leader(database: Database) -> None:
    load_cluster(database)
    make_window(database, "n001")
    commit(database, window_plan(database, ["n001"]), 0, NOW_S)
    assert end_windows(database, now_s=NOW_S + 200) == 0


def test_window_that_was_withdrawn_is_not_claimed(database: Database) -> None:
    load_cluster(database)
    make_window(database, "n001")
    plan = window_plan(database, ["n001"])
    delete_window(database, "w", now_s=NOW_S)
    assert commit(database, plan, 0, NOW_S).dropped == ("window w",)
    assert claimed(database) == {}


def test_claims_of_a_window_that_was_withdrawn_end(database: Database) -> None:
    load_cluster(database)
    make_window(database, "n001")
    plan = window_plan(database, ["n001"])
    commit(database, plan, 0, NOW_S)
    world = load_world(database)
    delete_window(database, "w", now_s=NOW_S)
    assert follow(database, world)
    assert world.windows == {}
    ends = Plan(current_revision(database), claims_gone=(plan.claims[0].uid,))
    assert commit(database, ends, 0, NOW_S).dropped == ()
    assert claimed(database) == {}


# -- imports --------------------------------------------------------------------------------------


def test_import_keeps_a_node_that_a_gang_has_claimed(database: Database) -> None:
    inventory = load_cluster(database)
    job = submit(database, "j")
    commit(database, Plan(current_revision(database), claims=claims_of(job, ["n004"])), 0, NOW_S)
    fewer = replace(inventory, nodes=inventory.nodes[:2])
    done = import_inventory(database, fewer, prune=True, dry_run=False, now_s=NOW_S)
    assert (done.removed, done.kept) == (1, 1)
    assert any("'n004' was not given but holds claims of gangs" in w for w in done.warnings)


def test_import_keeps_the_type_of_a_node_whose_gpus_are_claimed(database: Database) -> None:
    load_cluster(database)
    job = submit(database, "j")
    commit(database, Plan(current_revision(database), claims=claims_of(job, ["n004"])), 0, NOW_S)
    smaller = make_inventory(
        {"block": 1, "leaf": 1, "rack": 2, "node": 2}, node_type=make_type("small", gpus=4)
    )
    done = import_inventory(database, smaller, prune=False, dry_run=False, now_s=NOW_S)
    assert done.kept == 1
    assert audit_ledger(database).is_clean


def test_import_takes_a_node_from_a_maintenance_window(database: Database) -> None:
    inventory = load_cluster(database)
    make_window(database, "n001", "n004")
    commit(database, window_plan(database, ["n001", "n004"]), 0, NOW_S)
    world = load_world(database)
    fewer = replace(inventory, nodes=inventory.nodes[:2])
    done = import_inventory(database, fewer, prune=True, dry_run=False, now_s=NOW_S)
    assert done.removed == 2
    assert claimed(database) == {"window-w-n001": "n001"}
    assert follow(database, world)
    assert world.claims == load_world(database).claims
    assert same(world, load_world(database))


def test_claims_that_ended_go_with_the_history(database: Database) -> None:
    load_cluster(database)
    job = submit(database, "j")
    (claim,) = claims_of(job, ["n001"])
    for plan in (Plan(0, claims=(claim,)), Plan(0, claims_gone=(claim.uid,))):
        commit(database, replace(plan, revision=current_revision(database)), 0, NOW_S)
    trim_history(database, keep=0, now_s=NOW_S)
    with database.read() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM claims")).scalar_one() == 0


def pool_plan(database: Database, nodes: list[str], gone: tuple[ClaimId, ...] = ()) -> Plan:
    claims = tuple(
        Claim(
            uid=ClaimId(f"pool-{node}"),
            why=ClaimWhy.POOL,
            node=NodeId(node),
            gpu_mask=0xFF,
            window="rack/r01",
        )
        for node in nodes
    )
    return Plan(current_revision(database), claims=claims, claims_gone=gone)


def test_pool_of_a_domain_becomes_claims_and_ends(database: Database) -> None:
    load_cluster(database)
    world = load_world(database)
    done = commit(database, pool_plan(database, ["n001", "n002"]), 0, NOW_S)
    assert done.events == {"pool.claims": 1}
    assert follow(database, world)
    assert {c.node: c.window for c in world.claims.values()} == {
        "n001": "rack/r01",
        "n002": "rack/r01",
    }
    assert same(world, load_world(database))
    assert audit_ledger(database).is_clean
    (event,) = list_events(database, since=done.revision - 1).items
    assert (event.subject_kind, event.name) == ("pool", "rack/r01")
    assert event.message == "16 GPUs of 2 nodes are kept for gangs in recovery"
    commit(database, pool_plan(database, [], (ClaimId("pool-n001"),)), 0, NOW_S)
    assert follow(database, world)
    assert sorted(c.node for c in world.claims.values()) == ["n002"]


def test_pool_decided_on_an_older_map_or_node_is_left_out(database: Database) -> None:
    load_cluster(database)
    plan = pool_plan(database, ["n001"])
    cordon_node(database, "n001", reason="fan 3", by="", now_s=NOW_S)
    assert commit(database, plan, 0, NOW_S).events == {}
    assert claimed(database) == {}


def test_import_takes_a_node_from_a_pool(database: Database) -> None:
    inventory = load_cluster(database)
    commit(database, pool_plan(database, ["n004"]), 0, NOW_S)
    fewer = replace(inventory, nodes=inventory.nodes[:2])
    assert import_inventory(database, fewer, prune=True, dry_run=False, now_s=NOW_S).removed == 2
    assert claimed(database) == {}
    assert audit_ledger(database).is_clean
