"""Labels that nodes show and the inventory says in other words, as a job may select by them.

`kubectl get nodes --show-labels` has a GPU's product, a node's type and its places. Who selects by
one of these means the model, or the nodes that have it now.
"""

from collections.abc import Mapping

from api.k8s.volcano.shape import Tree
from scheduler.topology.tree import Topology

PRODUCT = "nvidia.com/gpu.product"
COUNT = "nvidia.com/gpu.count"
TYPE = "node.kubernetes.io/instance-type"
PLACE = "podyard.io/"


def meant(body: Tree, topology: Topology) -> Tree:
    """The request with what its labels mean; labels that nodes have of their own stay labels."""
    labels = body.get("labels")
    if not isinstance(labels, Mapping) or not labels:
        return body
    own = {key for node in topology.nodes for key in node.labels}
    asked = {k: v for k, v in labels.items() if k not in own and _is_made(k, topology)}
    if not asked:
        return body
    made = dict(body) | {"labels": {k: v for k, v in labels.items() if k not in asked}}
    models = {
        kind.gpu for kind in topology.kinds if kind.gpu.replace(" ", "-") == asked.get(PRODUCT)
    }
    if len(models) == 1:
        made["gpu"] = models.pop()
        del asked[PRODUCT]
    if asked:
        found = [
            node.name
            for index, node in enumerate(topology.nodes)
            if all(_shown(topology, index, key) == value for key, value in asked.items())
        ]
        only = body.get("nodes")
        made["nodes"] = [n for n in found if not isinstance(only, list) or n in only]
        if not made["nodes"]:
            # Nothing has them now; a label that no node has says so.
            return body
    return made


def _is_made(key: str, topology: Topology) -> bool:
    return key in (PRODUCT, COUNT, TYPE) or key.removeprefix(PLACE) in topology.level_names[:-1]


def _shown(topology: Topology, index: int, key: str) -> str | None:
    kind = topology.types[index]
    if key == TYPE:
        return kind.name
    if key == COUNT:
        return str(kind.gpus) if kind.gpus else None
    if key == PRODUCT:
        return kind.gpu.replace(" ", "-") if kind.gpu else None
    return topology.domains_of(index).get(key.removeprefix(PLACE))
