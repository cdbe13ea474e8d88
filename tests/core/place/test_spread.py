"""Which domains take how many pods, by counts alone."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.place.spread import evened, fewest


@given(st.lists(st.integers(0, 6), min_size=1, max_size=7), st.data())
def test_the_fewest_domains_are_as_few_as_any_and_leave_the_tightest(
    free: list[int], data: st.DataObject
) -> None:
    if not sum(free):
        return
    wanted = data.draw(st.integers(1, sum(free)))
    chosen = fewest([(count, domain) for domain, count in enumerate(free)], wanted)
    assert chosen == sorted(chosen)
    assert sum(share for _, share in chosen) == wanted
    assert all(0 < share <= free[domain] for domain, share in chosen)
    enough = [
        count
        for count in range(1, len(free) + 1)
        if any(sum(some) >= wanted for some in combinations(free, count))
    ]
    assert len(chosen) == enough[0]
    if len(chosen) == 1:
        # Of those that hold all of it, the one with least left, then the first.
        assert chosen[0][0] == min((n, d) for d, n in enumerate(free) if n >= wanted)[1]


def test_shares_are_evened_over_the_largest_domains_in_whole_units() -> None:
    capacities = [(2, 0), (8, 1), (6, 2), (8, 3)]
    assert evened(capacities, 12, 2, 2) == [(1, 6), (3, 6)]
    assert evened(capacities, 14, 2, 2) == [(1, 8), (3, 6)]
    assert evened(capacities, 18, 3, 2) == [(1, 6), (2, 6), (3, 6)]
