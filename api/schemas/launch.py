"""Rank maps as launchers read them."""

from api.schemas.common import Strict


class TorchNode(Strict):
    """One pod as `torchrun` starts it; `env` is what it reads instead of its options."""

    pod: str
    node: str
    node_rank: int
    gpus: list[int]
    ranks: list[int]
    env: dict[str, str]


class TorchRank(Strict):
    """One process with its environment; `gpu` is the GPU's index on the node."""

    rank: int
    node: str
    gpu: int
    env: dict[str, str]


class Torchrun(Strict):
    """A rank map for PyTorch; `master_addr` is the node of rank 0."""

    job: str
    nnodes: int
    nproc_per_node: int
    master_addr: str
    master_port: int
    nodes: list[TorchNode]
    ranks: list[TorchRank]


class SlurmPod(Strict):
    """Tasks `first_task` and on; a task sees the GPUs of its pod."""

    pod: str
    node: str
    first_task: int
    tasks: int
    cuda_visible_devices: str


class SlurmMap(Strict):
    """A rank map for `srun`: `hostfile` is the content of the file that `SLURM_HOSTFILE` names.

    `ntasks_per_node` is null where nodes have unequally many.
    """

    job: str
    nodelist: str
    nodes: int
    ntasks: int
    ntasks_per_node: int | None
    hostfile: str
    args: list[str]
    pods: list[SlurmPod]


class MegatronMap(Strict):
    """Arguments and environment of Megatron-LM.

    Where `order_by_flags` is false no flag gives the rank order; then pass `order` to
    `initialize_model_parallel(order=...)`.
    """

    job: str
    order: str
    order_by_flags: bool
    args: list[str]
    env: dict[str, str]
    nodes: list[TorchNode]


class NcclPod(Strict):
    """The rail of each GPU, those of them that are dead, and adapters in the order of rails."""

    pod: str
    node: str
    gpus: list[int]
    rails: list[int]
    dead_rails: list[int]
    ib_hca: str | None


class NcclGroup(Strict):
    """Groups of one axis; `crosses` counts those in more than one domain, by level."""

    count: int
    size: int
    crosses: dict[str, int]
    rail_true: bool
    bottleneck: str
    bytes_per_step: float


class NcclHints(Strict):
    """What NCCL may be told of a placement; no groups for jobs of roles."""

    job: str
    node_type: str | None
    scale_up: str | None
    rails: int
    env: dict[str, str]
    pods: list[NcclPod]
    groups: dict[str, NcclGroup]
