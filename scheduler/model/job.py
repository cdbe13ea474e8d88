"""What a user submits, after defaults: a gang by its parallel sizes or by roles, and its rules."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from scheduler.model.node import Taint, TaintEffect
from scheduler.model.resources import NOTHING, Resources

AXES = ("tp", "cp", "ep", "dp", "pp")
"""Parallel axes in Megatron's default order, fastest-changing first."""

HEAVY_FIRST = ("tp", "ep", "cp", "dp", "pp")
"""Axes by the traffic they carry when nothing is known of the model."""

JOB_GROUP = "job"
SCALE_UP = "scale_up"
MAX_RANKS = 1_000_000


class Mode(StrEnum):
    REQUIRED = "required"
    PREFERRED = "preferred"


class Scope(StrEnum):
    """What restarts when a pod is lost."""

    GANG = "gang"
    POD = "pod"
    POD_ELSE_GANG = "pod_else_gang"


class IfNeverFits(StrEnum):
    REFUSE = "refuse"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Rule:
    """Every group of this kind lies in one domain of a level.

    Attributes:
        group: `tp cp pp dp ep job`, or the name of a role. Rules of parts have the group "".
        within: A level's name, or `scale_up`.
    """

    group: str
    within: str
    mode: Mode = Mode.REQUIRED


@dataclass(frozen=True, slots=True)
class ParallelSizes:
    """Sizes of the axes and the order in which ranks run through them.

    Attributes:
        tp, cp, pp, dp: Dense sizes; the world is their product.
        ep, etp: Expert sizes; etp x ep x pp divides the world. `etp` None = 1 if `ep` > 1, else
            `tp`.
        order: All five axes, fastest-changing first.
    """

    tp: int = 1
    cp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    etp: int | None = None
    order: tuple[str, ...] = AXES

    @property
    def world(self) -> int:
        return self.tp * self.cp * self.pp * self.dp

    @property
    def expert_tp(self) -> int:
        if self.etp is not None:
            return self.etp
        return 1 if self.ep > 1 else self.tp

    @property
    def expert_dp(self) -> int:
        """Data-parallel size of the experts; whole when the sizes are valid."""
        return self.world // (self.expert_tp * self.ep * self.pp)

    def dense(self) -> dict[str, int]:
        return {"tp": self.tp, "cp": self.cp, "ep": 1, "dp": self.dp, "pp": self.pp}

    def expert(self) -> dict[str, int]:
        return {"tp": self.expert_tp, "cp": 1, "ep": self.ep, "dp": self.expert_dp, "pp": self.pp}


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The model that is trained, as far as its traffic depends on it.

    Attributes:
        params: Parameters of the whole model, those of all experts included; finite, above 0.
        layers: Transformer layers.
        hidden: Width of the activations between layers.
        seq: Tokens of one sequence.
        micro_batch: Sequences that one model replica takes at a time.
        global_batch: Sequences of one step over all replicas; None = not known.
        experts: Experts of each layer; 1 = a dense model.
        top_k: Experts that each token visits; 1 to `experts`.
        dtype: Type of the activations and of the parameters that are passed around.
    """

    params: float
    layers: int
    hidden: int
    seq: int
    micro_batch: int = 1
    global_batch: int | None = None
    experts: int = 1
    top_k: int = 1
    dtype: str = "bf16"


@dataclass(frozen=True, slots=True)
class Parts:
    """A role cut into equal parts, each started whole or not at all.

    Attributes:
        size: Members of a part; part k = members k x size and on.
        count: Parts; size x count = the role's replicas.
        min: Parts that must run together.
        rules: Rules for each part by itself; their `group` is "".
    """

    size: int
    count: int
    min: int
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class Role:
    """Equal members of a job.

    Attributes:
        replicas: Members wanted; at least 1.
        min: Members that must run together; with `parts`, parts.min x parts.size.
        gpus: GPUs of one member, on one node.
        resources: CPU, memory and counted resources of one member.
        one_per_node: No two members of this role on one node.
        ring: Member i talks to i + 1, the last to the first.
        decides: The job has succeeded when this role has.
    """

    name: str
    replicas: int
    min: int
    gpus: int = 0
    resources: Resources = NOTHING
    one_per_node: bool = False
    rules: tuple[Rule, ...] = ()
    parts: Parts | None = None
    ring: bool = False
    decides: bool = False


@dataclass(frozen=True, slots=True)
class Toleration:
    """As in Kubernetes: no key tolerates every taint; no effect, every effect."""

    key: str | None = None
    exists: bool = False
    value: str = ""
    effect: TaintEffect | None = None

    def tolerates(self, taint: Taint) -> bool:
        if self.effect is not None and self.effect != taint.effect:
            return False
        if self.key is None:
            return self.exists
        return self.key == taint.key and (self.exists or self.value == taint.value)


@dataclass(frozen=True, slots=True)
class Failure:
    """What becomes of a gang that loses members.

    Attributes:
        lost_after_s: Silence of a node's agent after which the members there count as lost; None =
            as the policy says.
    """

    scope: Scope = Scope.GANG
    max_restarts: int = 0
    backoff_s: float = 10.0
    hold_s: float = 600.0
    lost_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job with every default filled in.

    Exactly one of `parallelism` and `roles` is given.

    Attributes:
        gpu: GPU model every GPU pod must have; None = any.
        gpus_per_pod: Ranks of one pod; None = chosen for the node type.
        rules: Explicit rules of groups of this job; defaults are added when a node type is known.
        labels: Labels a node must have, with these values.
        nodes: Only these nodes; empty = any.
        resources_per_pod: CPU, memory and the like of each pod of a parallel job.
        rails_required: Pods that talk between nodes use no GPU whose rail is dead.
        exclusive: No other job has pods on its nodes.
        segment: Consecutive pods that lie in one scale-up domain; None = chosen by predicted time.
        dp_sizes: Values of dp it may start with, ascending; empty = that of `parallelism`, which is
            the largest of them otherwise.
        preempts: Others may have to leave for it; if not, it only takes what is free.
        model: Shape of the model; gives the score real bytes.
        axis_weights: Axis -> factor on the bytes it carries; axes not named have 1. Without a model
            it is the bytes themselves, in GB, in place of the default.
        grace_s: It has a checkpoint hook, which is asked to save before the gang has to leave, and
            so many seconds to do so; None = it has no hook and leaves at once.
        extra: What the core carries but does not read: run, checkpoint and the like.
    """

    name: str
    namespace: str = "default"
    queue: str = "default"
    priority: int = 0
    gpu: str | None = None
    parallelism: ParallelSizes | None = None
    gpus_per_pod: int | None = None
    resources_per_pod: Resources = NOTHING
    roles: tuple[Role, ...] = ()
    rules: tuple[Rule, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    nodes: tuple[str, ...] = ()
    rails_required: bool = False
    exclusive: bool = False
    segment: int | None = None
    dp_sizes: tuple[int, ...] = ()
    preemptible: bool = True
    preempts: bool = True
    if_never_fits: IfNeverFits = IfNeverFits.REFUSE
    patience_s: float | None = None
    duration_s: float | None = None
    time_limit_s: float | None = None
    spares: int = 0
    failure: Failure = Failure()
    model: ModelShape | None = None
    axis_weights: Mapping[str, float] = field(default_factory=dict)
    grace_s: float | None = None
    extra: Mapping[str, object] = field(default_factory=dict)

    def sizes_at(self, ranks: int) -> ParallelSizes | None:
        """The sizes with which the gang has so many ranks; None for roles, or if there are none."""
        for sizes in self.all_sizes():
            if sizes.world == ranks:
                return sizes
        return None

    def all_sizes(self) -> Iterator[ParallelSizes]:
        """Sizes that the gang may start with, the largest first; none for roles."""
        if self.parallelism is None:
            return
        if not self.dp_sizes:
            yield self.parallelism
        for dp in sorted(self.dp_sizes, reverse=True):
            yield replace(self.parallelism, dp=dp)

    @property
    def gpu_count(self) -> int:
        """GPUs of the whole gang with every member present."""
        if self.parallelism is not None:
            return self.parallelism.world
        return sum(role.replicas * role.gpus for role in self.roles)


def default_gpus_per_pod(sizes: ParallelSizes, node_gpus: int) -> int:
    """The largest g <= `node_gpus` with g | world and (g | tp or tp | g); at least 1."""
    return next(g for g in range(node_gpus, 0, -1) if fits_pod(sizes, g)) if node_gpus else 1


def fits_pod(sizes: ParallelSizes, gpus_per_pod: int) -> bool:
    """Whether pods of so many consecutive ranks keep tp groups and pods nested."""
    g, tp = gpus_per_pod, sizes.tp
    return sizes.world % g == 0 and (tp % g == 0 or g % tp == 0)
