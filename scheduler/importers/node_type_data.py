"""The built-in node types: what one server or tray of each product has.

Rates are one way and per GPU or NIC, in Gbit/s; NVLink is sold by the sum of both ways, so that
900 GB/s are 3,600 Gbit/s here. A figure that no source gives is 0. CPUs are cores, not threads.
An HGX board is sold in servers of many makers; its types have the figures of the DGX with the same
GPUs, and an inventory overrides what differs.
"""

from scheduler.model.node import NODE_LEVEL, NodeType
from scheduler.model.resources import Resources

_DGX_A100 = (
    "NVIDIA DGX A100 System User Guide, 1.1: 8 A100, NVLink 600 GB/s per GPU, 8 ConnectX-6 of "
    "200 Gb/s for the cluster, 2 EPYC 7742 (128 cores), 6.5 kW max; "
)
_DGX_H100 = (
    "NVIDIA DGX BasePOD Reference Architecture, Core Components: 8 ConnectX-7 of 400 Gb/s for the "
    "cluster, 2 Xeon 8480C (112 cores), 2 TB; NVIDIA DGX H100/H200 User Guide, 1.1: NVLink 900 "
    "GB/s per GPU, 8 x 3.84 TB cache, 10.2 kW max"
)
_DGX_B200 = (
    "NVIDIA DGX B200 User Guide, Introduction: 8 B200 of 180 GB, NVLink 14.4 TB/s for 8 GPUs, 8 "
    "ConnectX-7 of 400 Gb/s, 2 Xeon 8570 (112 cores), 2 TB, 8 x 3.84 TB cache, 14.3 kW max"
)
_MI300X = (
    "AMD Instinct MI300X platform data sheet: 7 Infinity Fabric links of 64 GB/s one way per GPU, "
    "fully meshed; AMD MI3XX Reference Design: 8 NICs of 400 Gb/s; MLPerf Inference 4.1, system "
    "8xMI300X_2xEPYC-9374F: 64 cores, 1.5 TiB. Draw and NVMe differ by maker"
)
_GB200 = (
    "NVIDIA DGX GB200 User Guide, Hardware: 18 trays a rack, each 2 Grace, 4 Blackwell GPUs and 4 "
    "ConnectX-7 of 400 Gb/s; GB200 NVL72 data sheet: NVLink 1.8 TB/s per GPU, Grace of 72 cores "
    "and 480 GB; FiberMall, 'In-depth analysis for NVIDIA GB200': 5.4 kW a tray"
)
_ATLAS = (
    "Zuo et al., 'Serving Large Language Models on Huawei CloudMatrix384', arXiv:2506.12708: 8 "
    "Ascend 910C of two dies a node, Unified Bus 392 GB/s one way and RDMA 400 Gb/s per 910C; "
    "vllm-ascend issue 8725: 4 Kunpeng 920 of 80 cores. Memory, NVMe and draw are not published"
)
_PLAIN = "No product: a two-socket server; set cpus, memory_gib and power_kw to your own"

SUPERNODE_LEVEL = "supernode"
"""Where Ascend processors talk over the Unified Bus: 48 nodes in 12 compute cabinets, whose
switches fill 4 more."""

NVL72_LEVEL = "rack"
"""Where the GPUs of an NVL72 talk over NVLink: the 18 trays of one rack."""


def _capacity(cpus: int, memory_gib: int) -> Resources:
    return Resources(cpu_milli=cpus * 1_000, memory_mib=memory_gib * 1_024)


def _eight_gpus(
    name: str,
    gpu: str,
    *,
    nic_gbps: float,
    scale_up_gbps: float,
    capacity: Resources,
    source: str,
    scale_up: str = NODE_LEVEL,
    power_w: int = 0,
    nvme_gb: int = 0,
) -> NodeType:
    """A server of eight GPUs with a NIC and a rail for each."""
    return NodeType(
        name=name,
        gpu=gpu,
        gpus=8,
        rails=8,
        rail_of_gpu=tuple(range(8)),
        nic_gbps=nic_gbps,
        scale_up=scale_up,
        scale_up_gbps=scale_up_gbps,
        power_w=power_w,
        capacity=capacity,
        nvme_gb=nvme_gb,
        source=source,
    )


def _a100(name: str, gpu: str, memory_gib: int, nvme_gb: int, source: str) -> NodeType:
    return _eight_gpus(
        name,
        gpu,
        nic_gbps=200.0,
        scale_up_gbps=2_400.0,
        capacity=_capacity(128, memory_gib),
        power_w=6_500,
        nvme_gb=nvme_gb,
        source=_DGX_A100 + source,
    )


def _hopper(name: str, gpu: str) -> NodeType:
    return _eight_gpus(
        name,
        gpu,
        nic_gbps=400.0,
        scale_up_gbps=3_600.0,
        capacity=_capacity(112, 2_048),
        power_w=10_200,
        nvme_gb=30_720,
        source=_DGX_H100,
    )


def _b200(name: str) -> NodeType:
    return _eight_gpus(
        name,
        "B200-180GB",
        nic_gbps=400.0,
        scale_up_gbps=7_200.0,
        capacity=_capacity(112, 2_048),
        power_w=14_300,
        nvme_gb=30_720,
        source=_DGX_B200,
    )


def _ascend(name: str) -> NodeType:
    return _eight_gpus(
        name,
        "Ascend-910C",
        nic_gbps=400.0,
        scale_up=SUPERNODE_LEVEL,
        scale_up_gbps=3_136.0,
        capacity=_capacity(320, 0),
        source=_ATLAS,
    )


_TYPES = (
    *(_a100(n, "A100-80GB", 2_048, 30_720, "2 TB, 30 TB") for n in ("dgx-a100", "hgx-a100")),
    *(
        _a100(n, "A100-40GB", 1_024, 15_360, "1 TB, 15 TB")
        for n in ("dgx-a100-40gb", "hgx-a100-40gb")
    ),
    *(_hopper(name, "H100-80GB") for name in ("dgx-h100", "hgx-h100")),
    *(_hopper(name, "H200-141GB") for name in ("dgx-h200", "hgx-h200")),
    *(_b200(name) for name in ("dgx-b200", "hgx-b200")),
    _eight_gpus(
        "mi300x-8",
        "MI300X-192GB",
        nic_gbps=400.0,
        scale_up_gbps=3_584.0,
        capacity=_capacity(64, 1_536),
        source=_MI300X,
    ),
    NodeType(
        name="gb200-tray",
        gpu="GB200-186GB",
        gpus=4,
        rails=4,
        rail_of_gpu=(0, 1, 2, 3),
        nic_gbps=400.0,
        scale_up=NVL72_LEVEL,
        scale_up_gbps=7_200.0,
        power_w=5_400,
        capacity=_capacity(144, 960),
        source=_GB200,
    ),
    *(_ascend(name) for name in ("atlas-900-a3", "ascend-910c")),
    NodeType(name="cpu", gpu="", gpus=0, capacity=_capacity(64, 512), source=_PLAIN),
)

BUILT_IN = {node_type.name: node_type for node_type in _TYPES}
"""The built-in types by name."""
