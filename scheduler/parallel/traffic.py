"""Bytes that each parallel axis carries in one training step.

Per rank and step, from the model's shape where it is given:

- tp: four pairs of all-gather and reduce-scatter per layer and micro-batch (two forward, two
  backward) on the activations, as tensor parallelism *with* sequence parallelism has them. Without
  it they are four all-reduces of the same bytes. The further all-gather of the backward pass is
  hidden behind a matrix product and left out. With experts of their own (etp 1) the feed-forward
  half of a layer talks over ep instead, which leaves two pairs.
- cp: keys and values go round a ring in the forward pass, and with their gradients in the
  backward pass.
- ep: four all-to-alls per layer and micro-batch: dispatch and combine, forward and backward.
- dp: reduce-scatter of the gradients and all-gather of the parameters of the rank's own share of
  the model, as a distributed optimizer has them; once a step. Dense parameters go over dp x cp,
  those of the experts over their own data-parallel groups.
- pp: activations forward and gradients backward, once per micro-batch; with sequence parallelism
  each tensor rank passes on its own share.

Sources: Shoeybi et al., "Megatron-LM", arXiv:1909.08053 (tp); Korthikanti et al., "Reducing
activation recomputation in large transformer models", arXiv:2205.05198 (sequence parallelism);
Narayanan et al., "Efficient large-scale language model training on GPU clusters using
Megatron-LM", SC 2021 (pp, scatter/gather, dp); Liu et al., "Ring attention with blockwise
transformers", arXiv:2310.01889 (cp); Rajbhandari et al., "DeepSpeed-MoE", ICML 2022 (ep);
Rajbhandari et al., "ZeRO", SC 2020 (distributed optimizer).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from types import MappingProxyType

from scheduler.model.job import JobSpec, ModelShape, ParallelSizes

DTYPE_BYTES: Mapping[str, int] = MappingProxyType({"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1})
"""Bytes of one number of each type that a model may be trained in."""

RING = "ring"
ALL_REDUCE = "all_reduce"
REDUCE_SCATTER_ALL_GATHER = "reduce_scatter+all_gather"
ALL_TO_ALL = "all_to_all"
SEND_RECV = "send_recv"


@dataclass(frozen=True, slots=True)
class TrafficDefaults:
    """What is taken of a model that nobody described, and how training software sends.

    Attributes:
        tp_gb, ep_gb, cp_gb, dp_gb, pp_gb: Bytes sent per rank and step without a model, in GB.
            They are what the formulas above give, in powers of two, for 70e9 parameters in 80
            layers of width 8192 at 4096 tokens, tp 8, pp 8, 16 micro-batches: tp 75 GB, dp 6 GB,
            pp 0.27 GB; ep and cp lie between tp and dp as `HEAVY_FIRST` has them.
        tp_calls, ep_calls, cp_calls, dp_calls, pp_calls: Collectives of the same model and step.
        tp_overlap, ep_overlap, cp_overlap, dp_overlap, pp_overlap: Share of the axis's time that
            is hidden behind computation. tp and ep lie on the critical path; a ring of cp is
            built to hide behind attention (Liu 2023, section 3); gradients and parameters of dp
            move during the backward and forward pass but for the first and last bucket (Li et
            al., "PyTorch distributed", VLDB 2020); pp is hidden but for the bubble (Narayanan
            2021, section 2.2). The shares themselves are judgements: what they hide depends on
            the batch.
        gradient_bytes: Bytes of one gradient; Megatron reduces in fp32 unless told otherwise.
        bucket_params: Parameters in one collective of dp (Megatron: max(40e6, 1e6 x dp)).
        bucket_params_per_rank: The same for each rank of the group.
        micro_batches_per_stage: Micro-batches per pipeline stage where the global batch is not
            known: 4 x pp keeps the bubble below a fifth (Narayanan 2021, section 2.2.1).
    """

    tp_gb: float = 64.0
    ep_gb: float = 32.0
    cp_gb: float = 16.0
    dp_gb: float = 4.0
    pp_gb: float = 0.5
    tp_calls: int = 640
    ep_calls: int = 640
    cp_calls: int = 160
    dp_calls: int = 28
    pp_calls: int = 16
    tp_overlap: float = 0.0
    ep_overlap: float = 0.0
    cp_overlap: float = 0.9
    dp_overlap: float = 0.8
    pp_overlap: float = 0.5
    gradient_bytes: float = 4.0
    bucket_params: float = 40e6
    bucket_params_per_rank: float = 1e6
    micro_batches_per_stage: int = 4

    def gb(self, axis: str) -> float:
        return float(getattr(self, f"{axis}_gb"))

    def calls(self, axis: str) -> int:
        return int(getattr(self, f"{axis}_calls"))

    def overlap(self, axis: str) -> float:
        return float(getattr(self, f"{axis}_overlap"))


TRAFFIC_DEFAULTS = TrafficDefaults()


@dataclass(frozen=True, slots=True)
class Pattern:
    """Who talks to whom in a flow, whatever the bytes.

    Attributes:
        over: The axes whose ranks form the groups.
        expert: The axes are those of the expert grid.
        collective: As for `Flow`.
    """

    over: tuple[str, ...]
    expert: bool
    collective: str


@dataclass(frozen=True, slots=True)
class Flow:
    """One kind of collective that every group of some ranks runs in a step.

    Attributes:
        over: The axes whose ranks form the groups.
        expert: The axes are those of the expert grid.
        size: Ranks of a group; at least 2.
        collective: `ring`, `all_reduce`, `reduce_scatter+all_gather`, `all_to_all` or `send_recv`.
        sent_bytes: Sent by each rank in a step; for `send_recv`, by one between two others.
        calls: Collectives in a step, one after the other.
    """

    over: tuple[str, ...]
    expert: bool
    size: int
    collective: str
    sent_bytes: float
    calls: int

    @property
    def pattern(self) -> Pattern:
        return Pattern(self.over, self.expert, self.collective)

    @property
    def messages(self) -> int:
        """Messages that a rank sends in a step, one after the other."""
        turns = {ALL_REDUCE: 2, REDUCE_SCATTER_ALL_GATHER: 2, RING: 3, SEND_RECV: 2}
        steps = 1 if self.collective == SEND_RECV else self.size - 1
        return turns.get(self.collective, 1) * steps * self.calls


@dataclass(frozen=True, slots=True)
class AxisTraffic:
    """What one axis carries in a step.

    Attributes:
        collective: That of the flow with the most bytes.
        bytes_per_step: Sent by each rank, all flows together.
        messages_per_step: Messages that each rank sends one after the other.
        overlap: Share of its time hidden behind computation; 0 to 1.
        assumed: The bytes are defaults, or rest on a batch that was not stated.
        flows: At least one.
        patterns: Of the flows, in their order.
    """

    axis: str
    collective: str
    bytes_per_step: float
    messages_per_step: int
    overlap: float
    assumed: bool
    flows: tuple[Flow, ...]
    patterns: tuple[Pattern, ...]


def traffic_of(
    spec: JobSpec, defaults: TrafficDefaults = TRAFFIC_DEFAULTS
) -> Mapping[str, AxisTraffic]:
    """What each axis of size above 1 carries in a step; empty for a job of roles.

    `spec.axis_weights` multiplies the bytes of an axis. Without a model a weight takes the place
    of the default: it is the axis's GB.
    """
    if spec.parallelism is None:
        return {}
    weights = tuple(sorted(spec.axis_weights.items()))
    return _traffic(spec.parallelism, spec.model, weights, defaults)


@lru_cache(maxsize=1024)
def _traffic(
    sizes: ParallelSizes,
    model: ModelShape | None,
    weights: tuple[tuple[str, float], ...],
    defaults: TrafficDefaults,
) -> Mapping[str, AxisTraffic]:
    weight_of = dict(weights)
    axes = {"tp": sizes.tp, "cp": sizes.cp, "ep": sizes.ep, "dp": sizes.dp, "pp": sizes.pp}
    found: dict[str, AxisTraffic] = {}
    for axis, size in axes.items():
        if size < 2:
            continue
        if model is None:
            flows = _default_flows(axis, size, weight_of.get(axis), defaults)
        else:
            flows = _weighted(_FLOWS[axis](_Step(sizes, model, defaults)), weight_of.get(axis, 1.0))
        heaviest = max(flows, key=lambda flow: flow.sent_bytes)
        found[axis] = AxisTraffic(
            axis=axis,
            collective=heaviest.collective,
            bytes_per_step=sum(flow.sent_bytes for flow in flows),
            messages_per_step=sum(flow.messages for flow in flows),
            overlap=defaults.overlap(axis),
            assumed=model is None or (model.global_batch is None and axis != "dp"),
            flows=flows,
            patterns=tuple(flow.pattern for flow in flows),
        )
    return MappingProxyType(found)


_DEFAULT_COLLECTIVE = {
    "tp": REDUCE_SCATTER_ALL_GATHER,
    "cp": RING,
    "ep": ALL_TO_ALL,
    "dp": ALL_REDUCE,
    "pp": SEND_RECV,
}


def _default_flows(
    axis: str, size: int, weight: float | None, defaults: TrafficDefaults
) -> tuple[Flow, ...]:
    gigabytes = defaults.gb(axis) if weight is None else weight
    return (
        Flow(
            over=(axis,),
            expert=axis == "ep",
            size=size,
            collective=_DEFAULT_COLLECTIVE[axis],
            sent_bytes=1e9 * gigabytes,
            calls=defaults.calls(axis),
        ),
    )


def _weighted(flows: tuple[Flow, ...], weight: float) -> tuple[Flow, ...]:
    return tuple(
        Flow(f.over, f.expert, f.size, f.collective, f.sent_bytes * weight, f.calls) for f in flows
    )


@dataclass(frozen=True, slots=True)
class _Step:
    """A model on its parallel sizes, for the formulas."""

    sizes: ParallelSizes
    model: ModelShape
    defaults: TrafficDefaults

    @property
    def micro_batches(self) -> int:
        """Per model replica and step."""
        model = self.model
        if model.global_batch is None:
            return self.defaults.micro_batches_per_stage * self.sizes.pp
        return max(1, model.global_batch // (self.sizes.dp * model.micro_batch))

    @property
    def layer_passes(self) -> int:
        """Layers of one stage x micro-batches: how often a rank runs through a layer."""
        return ceil(self.model.layers / self.sizes.pp) * self.micro_batches

    @property
    def activation_bytes(self) -> float:
        """Activations of one micro-batch between two layers, of one context rank."""
        model = self.model
        tokens = model.micro_batch * model.seq / self.sizes.cp
        return tokens * model.hidden * DTYPE_BYTES[model.dtype]

    @property
    def expert_params(self) -> float:
        """Parameters inside experts: all but 4 h^2 of attention per layer; 0 if dense."""
        model = self.model
        if model.experts == 1:
            return 0.0
        return max(0.0, model.params - 4.0 * model.layers * model.hidden**2)


def _tp_flows(step: _Step) -> tuple[Flow, ...]:
    size = step.sizes.tp
    pairs = 2 if step.model.experts > 1 and step.sizes.expert_tp == 1 else 4
    calls = pairs * step.layer_passes
    sent = calls * 2 * (size - 1) / size * step.activation_bytes
    return (Flow(("tp",), False, size, REDUCE_SCATTER_ALL_GATHER, sent, calls),)


def _cp_flows(step: _Step) -> tuple[Flow, ...]:
    size = step.sizes.cp
    keys_and_values = 2 * step.activation_bytes / step.sizes.tp
    sent = step.layer_passes * 3 * (size - 1) * keys_and_values
    ring = Flow(("cp",), False, size, RING, sent, step.layer_passes)
    # With one replica nothing but cp is left to reduce gradients over.
    return (ring, *_dense_gradients(step)) if step.sizes.dp == 1 else (ring,)


def _ep_flows(step: _Step) -> tuple[Flow, ...]:
    size = step.sizes.ep
    calls = 4 * step.layer_passes
    routed = step.model.top_k * step.activation_bytes / step.sizes.tp
    sent = calls * (size - 1) / size * routed
    tokens = Flow(("ep",), True, size, ALL_TO_ALL, sent, calls)
    # With one dense replica the gradients of experts belong to no other axis.
    return (tokens, *_expert_gradients(step)) if step.sizes.dp == 1 else (tokens,)


def _dp_flows(step: _Step) -> tuple[Flow, ...]:
    return _dense_gradients(step) + _expert_gradients(step)


def _dense_gradients(step: _Step) -> tuple[Flow, ...]:
    sizes = step.sizes
    over = tuple(axis for axis in ("cp", "dp") if getattr(sizes, axis) > 1)
    local = (step.model.params - step.expert_params) / (sizes.tp * sizes.pp)
    return (_gradients(step, over, sizes.cp * sizes.dp, local, expert=False),)


def _expert_gradients(step: _Step) -> tuple[Flow, ...]:
    sizes = step.sizes
    if not step.expert_params or sizes.expert_dp < 2:
        return ()
    local = step.expert_params / (sizes.expert_tp * sizes.ep * sizes.pp)
    return (_gradients(step, ("dp",), sizes.expert_dp, local, expert=True),)


def _gradients(
    step: _Step, over: tuple[str, ...], size: int, params: float, *, expert: bool
) -> Flow:
    """Reduce-scatter of gradients and all-gather of parameters, bucket by bucket."""
    defaults = step.defaults
    bucket = max(defaults.bucket_params, defaults.bucket_params_per_rank * size)
    per_param = defaults.gradient_bytes + DTYPE_BYTES[step.model.dtype]
    return Flow(
        over=over,
        expert=expert,
        size=size,
        collective=REDUCE_SCATTER_ALL_GATHER,
        sent_bytes=(size - 1) / size * params * per_param,
        calls=max(1, ceil(params / bucket)),
    )


def _pp_flows(step: _Step) -> tuple[Flow, ...]:
    size, batches = step.sizes.pp, step.micro_batches
    # A stage between two others sends activations one way and gradients the other.
    ways = 1 if size == 2 else 2
    sent = ways * batches * step.activation_bytes / step.sizes.tp
    return (Flow(("pp",), False, size, SEND_RECV, sent, batches),)


_FLOWS = {"tp": _tp_flows, "cp": _cp_flows, "ep": _ep_flows, "dp": _dp_flows, "pp": _pp_flows}
