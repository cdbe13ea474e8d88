"""What each importer makes of one file, written down; a difference is read, never just accepted.

`python -m tests.core.importers.test_golden` writes the files anew.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.importers import detect
from scheduler.importers.hostlist import compress
from scheduler.importers.ibnetdiscover import parse as parse_dump
from scheduler.model.node import Inventory
from scheduler.topology.natural import natural_key
from tests.core.importers.ib_writer import HCA, regular_dump
from tests.core.importers.samples import domains, sample

GOLDEN = Path(__file__).parents[2] / "golden" / "importers"

OWN = [
    "slurm-tree.conf",
    "slurm-block.yaml",
    "topograph-model.yaml",
    "kubernetes-nodes.yaml",
    "hosts.csv",
    "nccl-node.xml",
    "nvidia-smi-node.txt",
]

PUBLISHED = {
    "published-fabric": "topograph/ibnetdiscover-fabric.out",
    "published-irregular-model": "topograph/dual-xclr-irregular.yaml",
    "published-labels": "k8s-nodes/own-vendor-label-nodes.yaml",
}


def rendered(inventory: Inventory) -> str:
    return "\n".join(_lines(inventory)) + "\n"


def _lines(inventory: Inventory) -> Iterator[str]:
    levels = ", ".join(inventory.levels)
    yield f"cluster {inventory.cluster}: {levels}; scale_up {inventory.scale_up}"
    for name, found in sorted(inventory.node_types.items()):
        capacity = found.capacity
        yield (
            f"type {name}: {found.gpus} x '{found.gpu}', {found.rails} rails {found.rail_of_gpu} "
            f"of {found.nic_gbps:g} Gbit/s, scale_up {found.scale_up} of "
            f"{found.scale_up_gbps:g} Gbit/s, {capacity.cpu_milli} m, {capacity.memory_mib} Mi, "
            f"{capacity.other}"
        )
        yield f"  {compress(r.name for r in inventory.nodes if r.type == name)}"
    for level in inventory.levels[:-1]:
        yield level
        for domain, nodes in sorted(domains(inventory, level).items(), key=_domain_key):
            yield f"  {domain}: {nodes}"
    for record in inventory.nodes:
        if record.taints:
            yield f"taints of {record.name}: " + ", ".join(
                f"{t.key}={t.value}:{t.effect}" for t in record.taints
            )
    for kind, sets in sorted(inventory.sets.items()):
        for name, members in sets.items():
            yield f"set {kind} {name}: {compress(members)}"
    for level, speed in inventory.fabric.items():
        yield f"fabric {level}: {speed.gbps_per_gpu:g} Gbit/s, {speed.oversubscription:g}:1"
    yield from (f"warning: {warning}" for warning in inventory.warnings)


def _domain_key(item: tuple[str | None, str]) -> tuple[bool, tuple[object, str]]:
    return item[0] is None, natural_key(item[0] or "")


def odd_dump() -> str:
    """A small fabric with a swapped cable, a cable too few, a nameless adapter and a manager."""
    dump = regular_dump(blocks=2, leaf_groups=2, nodes=3, rails=2, uplinks=2, cores=1)
    of_name = {name: guid for guid, name in dump.names.items()}
    dump.cable(dump.device(HCA, "odd mlx5_1"), of_name["leaf-0-00"])
    dump.cable(dump.device(HCA, "odd mlx5_0"), of_name["leaf-1-00"])
    dump.cable(dump.device(HCA, "MT4129 ConnectX7   Mellanox Technologies"), of_name["leaf-0-01"])
    dump.cable(dump.device(HCA, "ufm mlx5_0"), of_name["leaf-1-10"])
    dump.cables = [c for c in dump.cables if (c[0].guid, c[0].number) != (of_name["leaf-0-11"], 1)]
    return dump.text()


def produced(name: str) -> str:
    if name == "ibnetdiscover-dump":
        return rendered(parse_dump(odd_dump()))
    if name in PUBLISHED:
        return rendered(detect.parse(sample(PUBLISHED[name])))
    return rendered(detect.parse((GOLDEN / name).read_text(encoding="utf-8")))


ALL = [*OWN, "ibnetdiscover-dump", *PUBLISHED]


@pytest.mark.parametrize("name", ALL)
def test_importer_makes_what_is_written_down(name: str) -> None:
    expected = (GOLDEN / f"{name}.golden").read_text(encoding="utf-8")
    assert produced(name) == expected


if __name__ == "__main__":
    for golden in ALL:
        (GOLDEN / f"{golden}.golden").write_text(produced(golden), encoding="utf-8")
