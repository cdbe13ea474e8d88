"""The oracle against plain enumeration: two ways to the same optimum."""

import pytest

from tests.oracle.cases import random_case
from tests.oracle.exact import problems, solve, spread_of
from tests.oracle.layouts import layouts

LIMIT = 6
"""Pods up to which every layout is tried."""


@pytest.mark.parametrize("start", range(0, 200, 40))
def test_the_solver_finds_what_enumeration_finds(start: int) -> None:
    for seed in range(start, start + 40):
        for problem in problems(random_case(seed)):
            if problem.pods > LIMIT or problem.least < problem.pods:
                continue
            best = solve(problem)
            spreads = (
                spread_of(problem, [problem.bins[b].domains for b in chosen])
                for chosen in layouts(problem)
            )
            assert min(spreads, default=None) == (None if best is None else best.spread), seed
