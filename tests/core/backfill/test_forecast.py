"""Forecasts against the plain way: one look after every single end."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.backfill.forecast import Ending, ending_of, expected_end_s, forecast
from scheduler.cluster.world import World
from scheduler.model.ids import JobId, NodeId, PodId
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.placement import Placement
from scheduler.model.plan import JobRecord, PodRecord
from scheduler.place.search import place
from tests.builders import make_cluster
from tests.core.gangs import gang, required

NOW_S = 1_000.0


def run(world: World, name: str, nodes: list[int], ends_s: float | None) -> JobRecord:
    """A gang on whole nodes that says when it ends."""
    spec = replace(gang(8, 1, len(nodes)), name=name)
    if ends_s is not None:
        spec = replace(spec, duration_s=ends_s)
    job = JobRecord(JobId(name), spec, JobState.RUNNING, len(world.jobs) + 1, started_s=NOW_S)
    world.put_job(job)
    world.put_pods(
        PodRecord(
            PodId(f"{name}-{i}"),
            job.uid,
            name,
            "",
            i,
            NodeId(world.topology.nodes[node].name),
            0xFF,
            8 * i,
            PodState.RUNNING,
        )
        for i, node in enumerate(nodes)
    )
    return job


def endings(world: World) -> list[Ending]:
    return [
        ending
        for uid, job in sorted(world.jobs.items())
        for ending in ending_of(job, world.live_pods(uid), NOW_S)
    ]


@st.composite
def crowded(draw: st.DrawFn) -> World:
    world = World(make_cluster(racks=3, nodes_per_rack=2))
    free = list(range(6))
    for number in range(draw(st.integers(0, 6))):
        size = draw(st.integers(1, 2))
        if len(free) < size:
            break
        nodes = [free.pop(draw(st.integers(0, len(free) - 1))) for _ in range(size)]
        ends_s = draw(st.sampled_from([None, 10.0, 20.0, 20.0, 30.0, 40.0]))
        run(world, f"j{number}", sorted(nodes), ends_s)
    return world


GANGS = st.sampled_from(
    [
        gang(8),
        gang(8, 1, 2),
        gang(8, 1, 4),
        gang(8, 1, 6),
        gang(8, 1, 2, required("job", "rack")),
        gang(8, 2, 2, required("pp", "rack")),
    ]
)


def first_start_s(world: World, spec: JobSpec) -> float | None:
    """The end after which the gang first fits; ends one after the other."""
    mark = world.trial.mark()
    known = sorted((e.at_s, e.job.uid, e) for e in endings(world) if e.at_s is not None)
    found = NOW_S if isinstance(place(world.trial, spec), Placement) else None
    for at_s, _, ending in known:
        if found is not None:
            break
        for pod in ending.pods:
            world.trial.release(world.held_by(pod))
        if isinstance(place(world.trial, spec), Placement):
            found = at_s
    world.trial.roll_back(mark)
    return found


@settings(max_examples=200, deadline=None)
@given(crowded(), GANGS)
def test_a_forecast_is_the_first_end_after_which_the_gang_fits(world: World, spec: JobSpec) -> None:
    plain = first_start_s(world, spec)
    if plain == NOW_S:
        return
    before = list(world.table.free)
    found = forecast(world, spec, endings(world), also_unknown=False)
    assert world.table.free == before
    assert (None if found is None else found.starts_s) == plain
    if found is not None:
        held = {p.node: job for job in found.waited_for for p in world.live_pods(job.uid)}
        names = [world.topology.nodes[p.node_index].name for p in found.placement.pods]
        free = {n.name for n, mask in zip(world.topology.nodes, before, strict=True) if mask}
        assert set(names) <= held.keys() | free


@settings(max_examples=100, deadline=None)
@given(crowded(), GANGS)
def test_with_unknown_ends_too_whatever_fits_the_empty_cluster_has_a_place(
    world: World, spec: JobSpec
) -> None:
    if isinstance(place(world.trial, spec), Placement):
        return
    found = forecast(world, spec, endings(world), also_unknown=True)
    assert (found is not None) == isinstance(place(world.emptied(), spec), Placement)
    if found is not None and found.starts_s is None:
        assert any(job.spec.duration_s is None for job in found.waited_for)


def test_jobs_past_their_duration_are_counted_on_before_those_that_said_nothing() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    run(world, "silent", [0], None)
    late = run(world, "late", [1], 10.0)
    world.put_job(replace(late, started_s=NOW_S - 50.0))
    found = forecast(world, gang(8), endings(world), also_unknown=True)
    assert found is not None
    assert found.starts_s is None
    assert [job.uid for job in found.waited_for] == ["late"]


def test_what_is_on_its_way_out_is_expected_to_be_gone_at_once() -> None:
    job = JobRecord(JobId("a"), gang(8, duration_s=50.0), JobState.RUNNING, 1, started_s=NOW_S)
    pod = PodRecord(PodId("p"), job.uid, "p", "", 0, NodeId("n"), 1, 0, PodState.TERMINATING)
    stays = replace(pod, uid=PodId("q"), state=PodState.RUNNING)
    leaving, staying = ending_of(job, [pod, stays], NOW_S)
    assert (leaving.at_s, staying.at_s) == (NOW_S, NOW_S + 50.0)
    (both,) = ending_of(replace(job, state=JobState.EVICTING), [stays], NOW_S)
    assert both.at_s == NOW_S


def test_an_end_that_has_passed_or_was_never_told_is_unknown() -> None:
    job = JobRecord(JobId("a"), gang(8, duration_s=50.0), JobState.RUNNING, 1, bound_s=NOW_S)
    assert expected_end_s(job, NOW_S + 49.0) == NOW_S + 50.0
    assert expected_end_s(job, NOW_S + 50.0) is None
    assert expected_end_s(replace(job, spec=gang(8, time_limit_s=9.0)), NOW_S) is None
