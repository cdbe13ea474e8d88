"""Switch maps of SHARP, joined with a table of adapters."""

import pytest

from scheduler.importers import slurm_conf
from scheduler.importers.guid_hosts import read_hosts
from scheduler.importers.sharp_map import parse
from tests.core.importers.samples import domains, has_words, refusal, sample


def test_map_with_cables_both_ways_gives_the_published_groups() -> None:
    """Cables form cycles in such a map; Slurm's own file of it groups the same nodes."""
    hosts = read_hosts(sample("cyclecloud-slurm/nodes_guids.txt"))
    found = parse(sample("cyclecloud-slurm/topology.txt"), hosts=hosts)
    made = slurm_conf.parse(sample("cyclecloud-slurm/slurm_topology.txt"))
    assert sorted(domains(found, "leaf").values()) == sorted(domains(made, "leaf").values())
    assert len(domains(found, "block")) == len(domains(made, "block")) == 1


def test_adapters_of_no_known_host_are_counted() -> None:
    text = "SwitchName=s1 Nodes=0x01,0x02"
    inventory = parse(text, hosts={1: "n1"})
    assert domains(inventory, "leaf") == {"s1": "n1"}
    assert has_words(inventory.warnings, "1 adapters of no known host")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ("no line",)),
        ("NodeName=n1", ("NodeName", "line 1", "SwitchName")),
        ("SwitchName=a Nodes=0x01\nSwitchName=a", ("line 2", "twice")),
        ("SwitchName=a Switches=b", ("Switches", "line 1", "'b'")),
        ("SwitchName=a Nodes=zz", ("Nodes", "line 1", "'zz'")),
        ("SwitchName=a Nodes=0x09", ("no link",)),
    ],
)
def test_bad_map_is_refused_with_its_line(text: str, words: tuple[str, ...]) -> None:
    assert has_words(refusal(lambda: parse(text, hosts={1: "n1"})), *words)


def test_table_of_adapters_is_read_in_both_spellings() -> None:
    assert read_hosts("n1: 0x0a\nn1: 0b\n# comment\n") == {10: "n1", 11: "n1"}
    assert read_hosts("VM_hostname n1\n0a\n00b\nVM_hostname n2\nc\n") == {
        10: "n1",
        11: "n1",
        12: "n2",
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0a\n", ("line 1", "host: guid")),
        ("n1: xyz\n", ("line 1", "xyz")),
        ("n1: 0a\nn2: 0a\n", ("guid", "line 2", "'n1'", "'n2'")),
        ("n/1: 0a\n", ("host", "line 1", "n/1")),
    ],
)
def test_bad_table_of_adapters_is_refused(text: str, words: tuple[str, ...]) -> None:
    assert has_words(refusal(lambda: read_hosts(text)), *words)
