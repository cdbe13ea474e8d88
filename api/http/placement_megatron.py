"""What Megatron-LM has to be told so that its groups are those the place was chosen for."""

from collections.abc import Iterator

from api.http.placement_laid import Laid
from api.http.placement_pods import MASTER_PORT, in_order, launch_nodes, title
from api.http.placement_price import priced_spec
from api.http.shapes import Shape
from api.schemas.reading import InvalidFields
from scheduler.errors import Problem
from scheduler.model.job import AXES, JobSpec, ModelShape, ParallelSizes

PP_BEFORE_DP = ("tp", "cp", "ep", "pp", "dp")
"""The order that `--use-tp-pp-dp-mapping` makes; without it Megatron's is `AXES`."""

_FLAG = "--use-tp-pp-dp-mapping"


def megatron(of: Laid) -> Shape:
    """Arguments and environment by Megatron's own names, and how its ranks are ordered.

    Raises:
        InvalidFields: If the job is one of roles, or its pods are not whole.
    """
    spec = priced_spec(of)
    if spec is None or spec.parallelism is None:
        raise InvalidFields(
            Problem("format", "megatron needs a job with parallelism, all of whose pods are there")
        )
    sizes = spec.parallelism
    ordered = in_order(of)
    by_flags = _same(sizes, AXES) or _same(sizes, PP_BEFORE_DP)
    flags = [] if _same(sizes, AXES) or not by_flags else [_FLAG]
    shared = {
        **{name.removeprefix("--").replace("-", "_").upper(): n for name, n in _sizes(sizes)},
        "DATA_PARALLEL_SIZE": str(sizes.dp),
        "WORLD_SIZE": str(sizes.world),
        "MASTER_ADDR": ordered[0].node,
        "MASTER_PORT": str(MASTER_PORT),
    }
    return {
        "job": title(of),
        "order": "-".join(sizes.order),
        "order_by_flags": by_flags,
        "args": [word for pair in _args(spec, sizes) for word in pair] + flags,
        "env": shared,
        "nodes": launch_nodes(of, "megatron"),
    }


def _same(sizes: ParallelSizes, order: tuple[str, ...]) -> bool:
    """Whether ranks are numbered as in this order; axes of size 1 make no difference."""
    dense, expert = sizes.dense(), sizes.expert()
    counting = {axis for axis in AXES if dense[axis] > 1 or expert[axis] > 1}
    return [a for a in sizes.order if a in counting] == [a for a in order if a in counting]


def _args(spec: JobSpec, sizes: ParallelSizes) -> Iterator[tuple[str, str]]:
    yield from _sizes(sizes)
    if spec.model is not None:
        yield from _shape(spec.model)


def _sizes(sizes: ParallelSizes) -> Iterator[tuple[str, str]]:
    yield "--tensor-model-parallel-size", str(sizes.tp)
    yield "--pipeline-model-parallel-size", str(sizes.pp)
    yield "--context-parallel-size", str(sizes.cp)
    yield "--expert-model-parallel-size", str(sizes.ep)
    yield "--expert-tensor-parallel-size", str(sizes.expert_tp)


def _shape(model: ModelShape) -> Iterator[tuple[str, str]]:
    yield "--num-layers", str(model.layers)
    yield "--hidden-size", str(model.hidden)
    yield "--seq-length", str(model.seq)
    yield "--micro-batch-size", str(model.micro_batch)
    if model.global_batch is not None:
        yield "--global-batch-size", str(model.global_batch)
    if model.experts > 1:
        yield "--num-experts", str(model.experts)
        yield "--moe-router-topk", str(model.top_k)
