"""Descriptions of 10,000 nodes in every format are read in under ten seconds."""

import gc
import json
import time
from collections.abc import Callable

import pytest

from scheduler.importers import (
    csv_hosts,
    ibnetdiscover,
    k8s_nodes,
    slurm_conf,
    slurm_yaml,
    topograph,
)
from scheduler.model.node import Inventory
from scheduler.topology.build import build
from tests.core.importers.ib_writer import regular_dump
from tests.core.importers.samples import has_words, refusal

NODES = 10_000
LEAVES = [range(start, min(start + 32, NODES)) for start in range(0, NODES, 32)]
SECONDS_MAX = 10.0

pytestmark = pytest.mark.slow


def hosts(leaf: range) -> str:
    return ",".join(f"host-{i}" for i in leaf)


def slurm_tree() -> str:
    leaves = [f"SwitchName=l{n} Nodes={hosts(leaf)}" for n, leaf in enumerate(LEAVES)]
    nodes = [f"NodeName=host-{i} CPUs=112 RealMemory=2000000 Gres=gpu:h100:8" for i in range(NODES)]
    return "\n".join([*leaves, f"SwitchName=top Switches=l[0-{len(LEAVES) - 1}]", *nodes])


def slurm_topology() -> str:
    switches = "".join(
        f"      - {{switch: l{n}, nodes: '{hosts(leaf)}'}}\n" for n, leaf in enumerate(LEAVES)
    )
    return f"- topology: t\n  tree:\n    switches:\n{switches}"


def model() -> str:
    blocks = "".join(
        f"- {{switch: l{n}, nodes: ['{hosts(leaf)}'], annotations: {{a.b/domain: d{n // 2}}}}}\n"
        for n, leaf in enumerate(LEAVES)
    )
    leaves = ", ".join(f"l{n}" for n in range(len(LEAVES)))
    return f"switches: {{top: {{switches: [{leaves}]}}}}\nblocks:\n{blocks}"


def table() -> str:
    rows = "".join(f"n{i},c,b{i // 512},l{i // 32 % 16},8,H100\n" for i in range(NODES))
    return f"host,core,block,leaf,gpus,model\n{rows}"


def kubernetes_node(index: int, more_labels: int) -> dict[str, object]:
    labels = {f"feature.node.kubernetes.io/cpu.F{n}": "true" for n in range(more_labels)}
    labels |= {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "topology.kubernetes.io/zone": "z",
        "fabric.topograph.run/tier-0": f"l{index // 32}",
        "fabric.topograph.run/tier-1": f"s{index // 512}",
    }
    capacity = {"cpu": "224", "memory": f"{2113563904 - index}Ki", "nvidia.com/gpu": "8"}
    return {
        "kind": "Node",
        "metadata": {"name": f"n{index}", "labels": labels},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def kubernetes_json() -> str:
    return json.dumps({"kind": "List", "items": [kubernetes_node(i, 40) for i in range(NODES)]})


def kubernetes_yaml() -> str:
    """JSON objects as YAML documents, so that all of it goes through the YAML reader."""
    return "---\n" + "\n---\n".join(json.dumps(kubernetes_node(i, 0)) for i in range(NODES))


def test_file_of_too_many_lines_is_refused() -> None:
    found = refusal(lambda: slurm_conf.parse("a=b\n" * 600_001))
    assert has_words(found, "line 600001", "600000 lines")


def dump() -> str:
    """Eight rails, as many cables up as down, three tiers: half a million ends of cables."""
    return regular_dump(blocks=10, leaf_groups=32, nodes=32, rails=8, uplinks=16, cores=16).text()


@pytest.mark.parametrize(
    ("parse", "make"),
    [
        (slurm_conf.parse, slurm_tree),
        (slurm_yaml.parse, slurm_topology),
        (topograph.parse, model),
        (csv_hosts.parse, table),
        (k8s_nodes.parse, kubernetes_json),
        (k8s_nodes.parse, kubernetes_yaml),
        (ibnetdiscover.parse, dump),
    ],
)
def test_ten_thousand_nodes_are_read_in_ten_seconds(
    parse: Callable[[str], Inventory], make: Callable[[], str]
) -> None:
    """In processor time, for another test may run beside this one.

    What tests before have left is frozen, or the garbage collector would go through it again.
    """
    text = make()
    gc.collect()
    gc.freeze()
    started = time.process_time()
    topology = build(parse(text)).topology
    taken = time.process_time() - started
    gc.unfreeze()
    assert topology.node_count >= NODES
    assert taken < SECONDS_MAX
