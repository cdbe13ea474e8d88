"""Model shapes against parallel sizes."""

from dataclasses import replace

import pytest

from scheduler.model.job import ModelShape, ParallelSizes
from scheduler.parallel.shape import shape_problems

LLAMA = ModelShape(70e9, 80, 8_192, 4_096, micro_batch=1, global_batch=1_024)
SIZES = ParallelSizes(tp=8, pp=8, dp=16)


def paths(model: ModelShape, sizes: ParallelSizes) -> list[str]:
    return [problem.path for problem in shape_problems(model, sizes)]


def test_shape_that_divides_evenly_is_taken() -> None:
    assert paths(LLAMA, SIZES) == []
    assert paths(replace(LLAMA, experts=64, top_k=8), replace(SIZES, ep=32, cp=2)) == []


@pytest.mark.parametrize(
    ("model", "sizes", "path"),
    [
        ({"layers": 81}, {}, "model.layers"),
        ({"layers": 4}, {}, "model.layers"),
        ({"hidden": 8_188}, {}, "model.hidden"),
        ({}, {"cp": 3}, "model.seq"),
        ({"global_batch": 1_000}, {}, "model.global_batch"),
        ({"micro_batch": 3}, {}, "model.global_batch"),
        ({"global_batch": 8}, {}, "model.global_batch"),
        ({}, {"ep": 8}, "model.experts"),
        ({"experts": 12}, {"ep": 8}, "model.experts"),
        ({"experts": 4, "top_k": 5}, {}, "model.top_k"),
        ({"top_k": 2}, {}, "model.top_k"),
    ],
)
def test_shape_that_does_not_divide_is_named(
    model: dict[str, int], sizes: dict[str, int], path: str
) -> None:
    changed = replace(LLAMA, **model)  # type: ignore[arg-type]  # whole numbers by field
    assert paths(changed, replace(SIZES, **sizes)) == [path]  # type: ignore[arg-type]  # as above


def test_message_says_what_is_allowed() -> None:
    (problem,) = shape_problems(replace(LLAMA, global_batch=1_000), SIZES)
    assert problem.message == (
        "found 1000; dp x micro_batch = 16 x 1 = 16 sequences are taken at a time: allowed are"
        " multiples of 16"
    )
