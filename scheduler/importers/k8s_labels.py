"""Which label of a Kubernetes node tells what: the default table, which an import may replace."""

from collections.abc import Mapping

LabelLevels = Mapping[str, tuple[str, ...]]
"""Level -> labels that name its domains, outermost first; the first that a node has counts."""

LABEL_LEVELS: LabelLevels = {
    "region": ("topology.kubernetes.io/region",),
    "zone": ("topology.kubernetes.io/zone",),
    "core": (
        "fabric.topograph.run/tier-2",
        "network.topology.nvidia.com/core",
        "network.topology.nvidia.com/datacenter",
        "topology.k8s.aws/network-node-layer-1",
    ),
    "block": (
        "fabric.topograph.run/tier-1",
        "network.topology.nvidia.com/spine",
        "topology.k8s.aws/network-node-layer-2",
        "cloud.google.com/gce-topology-block",
        "oci.oraclecloud.com/host.network_block_id",
        "cloud.provider.com/topology-block",
        "volcano.sh/hypercluster",
    ),
    "leaf": (
        "fabric.topograph.run/tier-0",
        "network.topology.nvidia.com/leaf",
        "network.topology.nvidia.com/block",
        "topology.k8s.aws/network-node-layer-3",
        "cloud.google.com/gce-topology-subblock",
        "volcano.sh/hypernode",
        "volcano.sh/tor",
        "topology.slinky.slurm.net/spec",
    ),
    "rack": ("oci.oraclecloud.com/host.rack_id", "cloud.provider.com/topology-rack"),
}
"""Labels of Kubernetes, topograph (its present names and two older sets), AWS, Google, Oracle,
Kueue's documentation, Volcano and Slinky. `cloud.google.com/gce-topology-host` names one machine:
the node itself."""

DOMAIN_LABELS = (
    "nvidia.com/gpu.clique",
    "accelerator.topograph.run/domain",
    "network.topology.nvidia.com/accelerator",
)
"""Labels that name the node's scale-up domain; the first that a node has counts. A clique is the
part of an NVLink domain whose GPUs reach each other, so it comes first."""

SET_LABELS: Mapping[str, str] = {"accelerator-part": "accelerator.topograph.run/sub-domain"}
"""Kind of named sets -> the label that names them."""

PRODUCT_LABELS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "alibabacloud.com/gpu-card-model",
    "aliyun.accelerator/nvidia_name",
    "node.kubernetes.io/npu.chip.name",
)
"""Labels that name the GPU's product; the first that a node has counts."""

COUNT_LABEL = "nvidia.com/gpu.count"
"""How many GPUs a node has, for one that does not tell its capacity."""

REPLICAS_LABEL = "nvidia.com/gpu.replicas"
"""Shares that each GPU is offered in."""

INSTANCE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")

GPU_RESOURCES = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "gpu.intel.com/xe",
    "gpu.intel.com/i915",
    "habana.ai/gaudi",
    "alibabacloud.com/gpu-count",
)
"""Resources that count whole GPUs."""

GPU_RESOURCE_PREFIXES = ("huawei.com/Ascend",)
"""As above, for makers that name the product in the resource."""

NOT_COUNTED = frozenset(
    ("cpu", "memory", "pods", "ephemeral-storage", "alibabacloud.com/gpu-milli")
)
"""Resources that are told elsewhere or are no thing to count."""

NOT_COUNTED_PREFIXES = ("hugepages-", "attachable-volumes-")

SLINKY_ANNOTATION = "topology.slinky.slurm.net/spec"
"""Units of Slurm topologies that a node is in: `topology:unit`, several with commas. The first is
read as if it were a label of this key, the others become named sets."""

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
NOT_READY_TAINTS = {
    "False": "node.kubernetes.io/not-ready",
    "Unknown": "node.kubernetes.io/unreachable",
}
"""The taints that Kubernetes gives a node by its state; a description may come without them."""
