"""What a broken part of the fabric takes from each node, and what looks wrong in one."""

import pytest

from scheduler.importers.ibnetdiscover import read_fabric
from scheduler.topology.build import build
from scheduler.topology.fabric import Fabric, Nic, Trunk, assemble
from scheduler.topology.fabric_checks import Finding, check_fabric, mixed_types
from scheduler.topology.fabric_faults import Faults, Lost, lost_rails, without
from scheduler.topology.fabric_groups import find_levels
from scheduler.topology.fabric_synthesis import synthesise
from tests.builders import make_inventory, make_type
from tests.core.importers.ib_writer import regular_dump


@pytest.fixture
def fabric() -> Fabric:
    """One block of two groups of four nodes and four rails, two spines."""
    text = regular_dump(blocks=1, leaf_groups=2, nodes=4, rails=4, cores=0).text()
    return find_levels(read_fabric(text).fabric).fabric


GROUP_0 = ["n0000", "n0001", "n0002", "n0003"]


def test_whole_fabric_has_lost_nothing(fabric: Fabric) -> None:
    assert lost_rails(fabric, Faults()) == {}


def test_dead_leaf_switch_takes_one_rail_of_its_nodes(fabric: Fabric) -> None:
    found = lost_rails(fabric, Faults(switches=frozenset(["leaf-3-00"])))
    assert found == dict.fromkeys(GROUP_0, Lost(rails=(3,)))


def test_dead_nic_takes_a_rail_of_its_node(fabric: Fabric) -> None:
    found = lost_rails(fabric, Faults(nics=frozenset([("n0001", "mlx5_2")])))
    assert found == {"n0001": Lost(rails=(2,))}


def test_dead_cable_of_a_node_takes_that_rail(fabric: Fabric) -> None:
    for link in (("n0001", "leaf-2-00"), ("leaf-2-00", "n0001")):
        assert lost_rails(fabric, Faults(links={link: 1})) == {"n0001": Lost(rails=(2,))}


def test_dead_spine_takes_no_rail_while_another_is_there(fabric: Fabric) -> None:
    assert lost_rails(fabric, Faults(switches=frozenset(["spine-0-0"]))) == {}


def test_dead_spines_confine_every_rail_to_its_leaf(fabric: Fabric) -> None:
    found = lost_rails(fabric, Faults(switches=frozenset(["spine-0-0", "spine-0-1"])))
    assert found["n0000"] == Lost(confined=(0, 1, 2, 3))
    assert len(found) == 8


def test_leaf_without_uplinks_confines_one_rail(fabric: Fabric) -> None:
    links = {("leaf-1-00", "spine-0-0"): 4, ("spine-0-1", "leaf-1-00"): 99}
    found = lost_rails(fabric, Faults(links=links))
    assert found == dict.fromkeys(GROUP_0, Lost(confined=(1,)))


def test_leaf_with_one_uplink_left_has_lost_nothing_but_bandwidth(fabric: Fabric) -> None:
    links = {("leaf-1-00", "spine-0-0"): 4, ("leaf-1-00", "spine-0-1"): 3}
    assert lost_rails(fabric, Faults(links=links)) == {}
    assert without(fabric, Faults(links=links)).up_share("leaf-1-00") == 0.25


def test_several_nics_on_one_switch_are_lost_one_cable_at_a_time() -> None:
    nics = [Nic("n", f"nic{i}", "leaf", 1.0, rail=i) for i in range(4)]
    fabric = assemble(nics, [])
    assert lost_rails(fabric, Faults(links={("n", "leaf"): 2})) == {"n": Lost(rails=(0, 1))}


def test_unknown_parts_break_nothing(fabric: Fabric) -> None:
    faults = Faults(frozenset(["x"]), frozenset([("n", "y")]), {("a", "b"): 1, ("c", "d"): -3})
    assert lost_rails(fabric, faults) == {}


def test_faults_of_a_synthesised_fabric_are_lost_rails_too() -> None:
    topology = build(make_inventory({"block": 1, "leaf": 2, "node": 2})).topology
    made = synthesise(topology, ("block", "leaf"))
    found = lost_rails(made, Faults(switches=frozenset(["leaf l1/rail-5"])))
    assert found == dict.fromkeys(["n001", "n002"], Lost(rails=(5,)))


# --- what looks wrong -------------------------------------------------------------------------


def grouped(*, groups: int = 2, nodes: int = 4, rails: int = 2) -> list[Nic]:
    return [
        Nic(f"n{g}{i}", f"nic{r}", f"leaf{g}{r}", 400.0)
        for g in range(groups)
        for i in range(nodes)
        for r in range(rails)
    ]


def uplinks(*, groups: int = 2, rails: int = 2, cables: int = 4) -> list[Trunk]:
    names = [f"leaf{g}{r}" for g in range(groups) for r in range(rails)]
    return [Trunk(name, "spine", (400.0,) * cables) for name in names]


def found_codes(
    nics: list[Nic], trunks: list[Trunk], switches: tuple[str, ...] = ()
) -> list[Finding]:
    return check_fabric(find_levels(assemble(nics, trunks, switches=switches)))


def the(findings: list[Finding], code: str) -> Finding:
    (found,) = [finding for finding in findings if finding.code == code]
    return found


def test_regular_fabric_looks_right() -> None:
    assert found_codes(grouped(), uplinks()) == []


def test_node_on_two_leaves_of_one_rail_is_found() -> None:
    """Its second NIC is in the switch of its first; on the others it is in one of its own."""
    nics = [n for n in grouped() if (n.node, n.name) != ("n01", "nic1")]
    findings = found_codes([*nics, Nic("n01", "nic1", "leaf00", 400.0)], uplinks())
    assert the(findings, "two_on_one_rail").subject == "n01"
    assert "'nic0' on 'leaf00' and 'nic1' on 'leaf00'" in the(findings, "two_on_one_rail").message
    assert "rail 1" in the(findings, "missing_rail").message


def test_node_with_swapped_cables_is_found() -> None:
    nics = [n for n in grouped() if n.node != "n01"]
    nics += [Nic("n01", "nic0", "leaf01", 400.0), Nic("n01", "nic1", "leaf00", 400.0)]
    crossed = [f for f in found_codes(nics, uplinks()) if f.code == "crossed"]
    assert [finding.subject for finding in crossed] == ["n01", "n01"]
    assert "'leaf00'" in crossed[0].message


def test_node_with_a_nic_in_another_group_is_found() -> None:
    nics = [n for n in grouped(rails=3) if (n.node, n.name) != ("n01", "nic2")]
    findings = found_codes([*nics, Nic("n01", "nic2", "leaf12", 400.0)], uplinks(rails=3))
    assert "'leaf12'" in the(findings, "outside_group").message


def test_group_without_a_switch_of_a_rail_is_found() -> None:
    nics = [n for n in grouped() if n.switch != "leaf11"]
    assert "rail 1" in the(found_codes(nics, uplinks()[:-1]), "no_switch_of_rail").message


def test_leaf_with_one_uplink_down_is_found() -> None:
    trunks = [*uplinks()[1:], Trunk("leaf00", "spine", (400.0,) * 3)]
    found = the(found_codes(grouped(), trunks), "uplinks")
    assert (found.subject, "3 uplinks; most of its tier have 4" in found.message) == (
        "leaf00",
        True,
    )


def test_slow_links_are_found() -> None:
    nics = [n for n in grouped() if (n.node, n.name) != ("n01", "nic1")]
    nics.append(Nic("n01", "nic1", "leaf01", 200.0))
    trunks = [*uplinks()[1:], Trunk("leaf00", "spine", (400.0, 400.0, 400.0, 100.0))]
    slow = [f.message for f in found_codes(nics, trunks) if f.code == "slow_link"]
    assert any("200" in message and "'n01'" in message for message in slow)
    assert any("1 of 4 cables" in message and "'leaf00'" in message for message in slow)


def test_switches_without_nodes_and_dead_ends_are_found() -> None:
    trunks = [*uplinks(), Trunk("spine", "stub", (400.0,)), Trunk("far", "away", (400.0,))]
    findings = found_codes(grouped(), trunks, switches=("lone",))
    assert {f.subject for f in findings if f.code == "no_nodes"} == {"far", "away", "lone"}
    assert the(findings, "dead_end").subject == "stub"


def test_link_between_switches_of_one_tier_is_found() -> None:
    """Such links close a cycle."""
    findings = found_codes(grouped(), [*uplinks(), Trunk("leaf00", "leaf10", (400.0,))])
    assert "'leaf00' and 'leaf10'" in the(findings, "side_link").message


def test_nodes_that_cannot_reach_the_others_are_found() -> None:
    findings = found_codes(grouped(), uplinks(groups=1))
    assert "'n10', 'n11', 'n12' and 1 more" in the(findings, "island").message


def test_rack_of_mixed_types_is_found() -> None:
    big, small = make_type("big"), make_type("small", gpus=4)
    inventory = make_inventory({"rack": 2, "node": 2}, node_type=big)
    object.__setattr__(inventory, "node_types", {"big": big, "small": small})
    object.__setattr__(inventory.nodes[0], "type", "small")
    (found,) = mixed_types(build(inventory).topology, "rack")
    assert (found.code, found.subject) == ("mixed_types", "r01")
    assert "1 of 'big', 1 of 'small'" in found.message
