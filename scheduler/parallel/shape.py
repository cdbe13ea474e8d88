"""Model shapes that contradict the parallel sizes they are to be trained with."""

from collections.abc import Iterator

from scheduler.errors import Problem
from scheduler.model.job import ModelShape, ParallelSizes


def shape_problems(model: ModelShape, sizes: ParallelSizes) -> Iterator[Problem]:
    """What does not divide evenly, as Megatron asks it to; paths are those of a request."""
    yield from _expert_problems(model, sizes)
    if model.layers % sizes.pp:
        yield Problem(
            "model.layers",
            f"found {model.layers}; every stage of pp {sizes.pp} has as many layers: allowed are"
            f" multiples of {sizes.pp} (count embedding and head as layers where they fill up the"
            " first and last stage)",
        )
    if model.hidden % sizes.tp:
        yield Problem(
            "model.hidden",
            f"found {model.hidden}; it is cut into tp {sizes.tp} equal parts: allowed are"
            f" multiples of {sizes.tp}",
        )
    if model.seq % sizes.cp:
        yield Problem(
            "model.seq",
            f"found {model.seq}; it is cut into cp {sizes.cp} equal parts: allowed are multiples"
            f" of {sizes.cp}",
        )
    replicas = sizes.dp * model.micro_batch
    if model.global_batch is not None and model.global_batch % replicas:
        yield Problem(
            "model.global_batch",
            f"found {model.global_batch}; dp x micro_batch = {sizes.dp} x {model.micro_batch} ="
            f" {replicas} sequences are taken at a time: allowed are multiples of {replicas}",
        )


def _expert_problems(model: ModelShape, sizes: ParallelSizes) -> Iterator[Problem]:
    if model.top_k > model.experts:
        yield Problem(
            "model.top_k",
            f"found {model.top_k}; a token visits at most all of the {model.experts} experts",
        )
    if model.experts % sizes.ep:
        yield Problem(
            "model.experts",
            f"found {model.experts}; every rank of ep {sizes.ep} has as many experts: allowed are"
            f" multiples of {sizes.ep}",
        )
