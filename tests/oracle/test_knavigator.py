"""The two clusters that NVIDIA's knavigator publishes with a right answer.

Source: knavigator, resources/benchmarks/nwtopo/workflows, config-nodes.yaml and
config-nodes-acc.yaml. The second repeats the description of the first, though its tree is another:
its n5 shares neither NVLink domain nor spine with n7 and n8. No five busy nodes make those three
the best there, for of seven free nodes four are under one spine. Taken here is what its tree says.
"""

import pytest

from scheduler.cluster.world import World
from scheduler.importers import k8s_nodes
from scheduler.model.job import JobSpec
from scheduler.model.placement import Placement
from scheduler.topology.build import build
from tests.core.gangs import count_by, gang, nodes_of, placed, role, role_gang
from tests.core.importers.samples import sample

BUSY = ("n1", "n3", "n6", "n11", "n12")

REPLICAS = (
    role_gang(role("m", 3, gpus=8)),
    role_gang(role("m", 3, gpus=1, one_per_node=True)),
    gang(tp=8, dp=3),
    gang(tp=8, pp=3),
)
"""A job of three replicas as a user of each kind would write it."""


def knavigator(name: str) -> World:
    inventory = k8s_nodes.parse(sample(f"k8s-nodes/knavigator-12-nodes-{name}.yaml"))
    return World(build(inventory).topology)


@pytest.mark.parametrize("spec", REPLICAS)
def test_three_replicas_get_the_nodes_that_the_description_names(spec: JobSpec) -> None:
    world = knavigator("tree")
    busy = {record.name for record in world.topology.nodes if record.taints}
    assert busy == set(BUSY)
    assert sorted(nodes_of(world.topology, placed(world, spec))) == ["n5", "n7", "n8"]


@pytest.mark.parametrize("spec", REPLICAS)
def test_three_replicas_share_a_leaf_and_an_nvlink_domain_where_one_has_three_nodes_free(
    spec: JobSpec,
) -> None:
    world = knavigator("tree-nvlink")
    for name in BUSY:
        world.set_node(name, aside="cordoned")
    assert sorted(nodes_of(world.topology, placed(world, spec))) == ["n7", "n8", "n9"]


@pytest.mark.parametrize("free", [4, 5, 6])
def test_a_gang_of_up_to_six_nodes_stays_in_one_nvlink_domain(free: int) -> None:
    """Its leaves of two and three free nodes are too small; the domain of two leaves is not."""
    world = knavigator("tree-nvlink")
    for name in ("n1", "n7", "n10", "n12")[: 6 - free]:
        world.set_node(name, aside="cordoned")
    found: Placement = placed(world, gang(tp=8, dp=free))
    assert len(count_by(world.topology, found, "accelerator")) == 1
