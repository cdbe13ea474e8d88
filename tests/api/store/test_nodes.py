"""Reading nodes, and cordoning them."""

import pytest

from api.store.engine import Database
from api.store.errors import BadCursor, NotFound
from api.store.events import current_revision, list_events
from api.store.nodes import cordon_node, get_node, jobs_by_node, list_nodes, uncordon_node, usage
from api.store.snapshot import follow, load_world
from scheduler.model.node import Health
from tests.api.store.build import NOW_S, bind, load_cluster, make_spec, submit
from tests.api.store.raw import execute


def test_nodes_are_listed_by_name_in_pages(database: Database) -> None:
    load_cluster(database, 8)
    found, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        page = list_nodes(database, limit=3, cursor=cursor)
        found += [node.name for node in page.items]
        cursor, pages = page.next, pages + 1
    assert found == [f"n00{i}" for i in range(1, 9)]
    assert pages == 3


def test_nodes_of_a_domain_or_type_are_listed_in_pages(database: Database) -> None:
    load_cluster(database, 8)
    page = list_nodes(database, domain=("rack", "r02"), limit=3)
    assert [node.name for node in page.items] == ["n005", "n006", "n007"]
    page = list_nodes(database, domain=("rack", "r02"), limit=3, cursor=page.next)
    assert [node.name for node in page.items] == ["n008"]
    assert page.next is None
    assert len(list_nodes(database, node_type="h100-8").items) == 8
    assert list_nodes(database, node_type="other").items == ()
    assert [n.name for n in list_nodes(database, domain=("node", "n003")).items] == ["n003"]


@pytest.mark.parametrize("domain", [("rack", "r9"), ("row", "r01"), ("rack", "")])
def test_domain_that_does_not_exist_is_not_found(
    database: Database, domain: tuple[str, str]
) -> None:
    load_cluster(database)
    with pytest.raises(NotFound):
        list_nodes(database, domain=domain)


def test_node_that_does_not_exist_is_not_found(database: Database) -> None:
    with pytest.raises(NotFound):
        get_node(database, "n001")
    with pytest.raises(NotFound):
        cordon_node(database, "n001", reason="", by="", now_s=NOW_S)
    with pytest.raises(NotFound):
        uncordon_node(database, "n001", now_s=NOW_S)
    with pytest.raises(BadCursor):
        list_nodes(database, cursor="WzFd")


def test_cordon_is_an_event_and_the_same_again_is_none(database: Database) -> None:
    load_cluster(database)
    node = cordon_node(database, "n002", reason="disk", by="ann", now_s=NOW_S)
    assert node.cordon == {"reason": "disk", "by": "ann", "at": NOW_S}
    assert not node.is_usable
    revision = current_revision(database)
    assert node.revision == revision
    assert cordon_node(database, "n002", reason="disk", by="ann", now_s=NOW_S + 1) == node
    assert current_revision(database) == revision
    assert cordon_node(database, "n002", reason="fan", by="ann", now_s=NOW_S).cordon != node.cordon
    assert uncordon_node(database, "n002", now_s=NOW_S).is_usable
    assert uncordon_node(database, "n002", now_s=NOW_S).is_usable
    events = list_events(database, 1).items
    assert [event.kind for event in events] == [
        "node.cordoned",
        "node.cordoned",
        "node.uncordoned",
    ]
    assert events[0].message == "takes no new pods: disk"


def test_use_of_all_nodes_is_read_at_once(database: Database) -> None:
    load_cluster(database)
    first, second = (submit(database, make_spec(name, replicas=2)) for name in "ab")
    bind(database, first, ["n001", "n002"], mask=0x0F)
    bind(database, second, ["n002", "n003"], mask=0xF0)
    cordon_node(database, "n003", reason="", by="", now_s=NOW_S)
    execute(database, "UPDATE nodes SET health = 'lost' WHERE name = 'n004'")
    execute(database, "UPDATE nodes SET drain_at = 1 WHERE name = 'n001'")
    revision, found = usage(database)
    assert revision == current_revision(database)
    assert {name: use.gpu_mask_used for name, use in found.items()} == {
        "n001": 0x0F,
        "n002": 0xFF,
        "n003": 0xF0,
        "n004": 0,
    }
    asides = [found[name].aside for name in ("n001", "n002", "n003", "n004")]
    assert asides == ["draining", None, "cordoned", "lost"]
    assert found["n004"].health is Health.LOST
    assert jobs_by_node(database) == {
        "n001": (first.uid,),
        "n002": tuple(sorted((first.uid, second.uid))),
        "n003": (second.uid,),
    }


def test_world_follows_cordons(database: Database) -> None:
    load_cluster(database)
    world = load_world(database)
    index = world.topology.node_index["n002"]
    cordon_node(database, "n002", reason="", by="", now_s=NOW_S)
    assert follow(database, world)
    assert world.table.aside[index] == "cordoned"
    assert load_world(database).table.aside == world.table.aside
    uncordon_node(database, "n002", now_s=NOW_S)
    assert follow(database, world)
    assert world.table.aside[index] is None
