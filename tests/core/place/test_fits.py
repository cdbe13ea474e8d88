"""Whether a gang fits, by counts alone, against a whole placement."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cluster.world import World
from scheduler.model.job import JobSpec
from scheduler.model.placement import Placement
from scheduler.place.fits import Fit
from scheduler.place.search import place
from tests.builders import make_cluster
from tests.core.gangs import gang, role, role_gang
from tests.properties.test_placement import gangs, worlds

FIELDS = st.sampled_from(
    [{}, {}, {"exclusive": True}, {"rails_required": True}, {"nodes": ("n0", "n1", "n2")}]
)


@settings(max_examples=300, deadline=None)
@given(worlds(), gangs(), FIELDS)
def test_a_gang_fits_exactly_when_it_has_a_placement(
    world: World, spec: JobSpec, fields: dict[str, object]
) -> None:
    spec = replace(spec, **fields)  # type: ignore[arg-type]  # by name
    assert Fit(world.trial, spec).now() == isinstance(place(world.trial, spec), Placement)


@settings(max_examples=60, deadline=None)
@given(worlds(), st.sampled_from([(1, 2), (2, 4, 8), (3,)]))
def test_a_gang_that_may_be_smaller_fits_when_its_smallest_size_does(
    world: World, sizes: tuple[int, ...]
) -> None:
    spec = gang(8, 1, sizes[-1], dp_sizes=sizes)
    assert Fit(world.trial, spec).now() == isinstance(place(world.trial, spec), Placement)


def test_the_least_that_a_gang_needs_is_its_minimum() -> None:
    trial = World(make_cluster()).trial
    assert Fit(trial, gang(8, 2, 2)).least_gpus == 32
    assert Fit(trial, gang(8, 2, 2)).least_pods == 4
    assert Fit(trial, role_gang(role("m", 4, 2, min=3))).least_gpus == 6
    mixed = role_gang(role("a", 2, 4, min=1), role("b", 3, 1))
    assert Fit(trial, mixed).least_gpus == 7
    assert not Fit(trial, mixed).is_uniform
