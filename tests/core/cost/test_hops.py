"""How groups lie, counted on small grids whose answer is plain."""

import numpy as np
import pytest

from scheduler.cost.hops import true_rows


def groups(*rows: str) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and GPUs of groups written as `node.gpu`."""
    pairs = [[tuple(map(int, member.split("."))) for member in row.split()] for row in rows]
    table = np.array(pairs, dtype=np.int64)
    return table[:, :, 0], table[:, :, 1]


@pytest.mark.parametrize(
    ("rows", "true"),
    [
        (["1.0 2.0 3.0"], 1),
        (["1.0 2.1 3.0"], 0),
        (["1.0 1.1 2.0 2.1"], 1),
        (["1.0 1.1 2.1 2.0"], 1),
        (["1.0 1.1 2.0 2.2"], 0),
        (["1.0 1.1 1.2 2.0"], 0),
        (["1.0 1.1 1.2 1.3"], 1),
        (["1.0 2.0", "1.1 2.1", "1.2 2.3"], 2),
        (["1.0 1.1", "2.0 3.0", "4.0 5.5"], 2),
        (["1.7"], 1),
        (["1.0 1.1 2.0", "1.0 2.0 3.0"], 1),
    ],
)
def test_group_is_rail_true_when_its_gpus_are_alike_on_every_node(
    rows: list[str], true: int
) -> None:
    assert true_rows(*groups(*rows)).sum() == true
