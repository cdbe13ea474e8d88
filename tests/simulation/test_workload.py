"""Generated jobs and trace files."""

import math
import statistics

import pytest

from scheduler.sim.faults import NODE_FAULTS_PER_NODE_DAY, Kind, Rates, incidents
from scheduler.sim.traces import read_trace
from scheduler.sim.workload import (
    FITS,
    WORKLOADS,
    Demand,
    WorkloadError,
    gang,
    generate,
    offered,
    squeezed,
)


def demand(**fields: object) -> Demand:
    given: dict[str, object] = {"jobs": 200, "load": 0.9, "gpus": 512, "largest": 512, **fields}
    return Demand(**given)  # type: ignore[arg-type]  # by name


@pytest.mark.parametrize("name", FITS)
def test_a_fit_has_the_published_mean_and_median(name: str) -> None:
    fit = FITS[name]
    total = sum(fit.gpus.values())
    mean_gpus = sum(gpus * weight for gpus, weight in fit.gpus.items()) / total
    assert mean_gpus == pytest.approx(fit.mean_gpus, rel=0.08)
    assert fit.median_s * math.exp(fit.sigma**2 / 2) == pytest.approx(fit.mean_s)
    at_most_median = sum(w for gpus, w in fit.gpus.items() if gpus <= fit.median_gpus)
    assert at_most_median >= total / 2


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_generated_workload_offers_exactly_the_load(name: str) -> None:
    jobs = generate(WORKLOADS[name], demand(jobs=500), seed=1)
    span_s = offered(jobs) / (0.9 * 512)
    assert 0.95 * span_s <= jobs[-1].at_s <= span_s
    assert [job.at_s for job in jobs] == sorted(job.at_s for job in jobs)
    assert max(job.spec.gpu_count for job in jobs) <= 512
    assert all(1.0 <= job.run_s <= WORKLOADS[name].max_s for job in jobs)


def test_generated_run_times_have_the_published_median() -> None:
    jobs = generate(FITS["philly"], demand(jobs=4_000), seed=2)
    assert statistics.median(j.run_s for j in jobs) == pytest.approx(874.0, rel=0.15)


def test_the_same_seed_gives_the_same_jobs() -> None:
    first, again = (generate(FITS["kalos"], demand(), seed=4) for _ in range(2))
    assert first == again
    assert first != generate(FITS["kalos"], demand(), seed=5)


@pytest.mark.parametrize("factor", [0.0, 1.0, 2.0])
def test_declared_durations_are_off_by_the_factor_at_most(factor: float) -> None:
    for job in generate(FITS["seren"], demand(estimate_factor=factor), seed=1):
        told = job.spec.duration_s
        if not factor:
            assert told is None
        else:
            assert told is not None
            assert 1 / factor - 1e-9 <= told / job.run_s <= factor + 1e-9


def test_the_first_queue_gets_the_most_jobs() -> None:
    jobs = generate(FITS["seren"], demand(jobs=900, queues=3), seed=1)
    counts = [sum(j.spec.queue == f"q{i}" for j in jobs) for i in range(3)]
    assert counts[0] > max(counts[1:])
    assert min(counts) > 0


@pytest.mark.parametrize("gpus", [1, 2, 8, 12, 16, 64, 256, 1_016])
def test_a_gang_has_the_gpus_asked_for(gpus: int) -> None:
    assert gang(gpus, "g").gpu_count == gpus


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"jobs": 0}, "at least 1"),
        ({"load": 0.0}, "0 to 10"),
        ({"load": math.nan}, "0 to 10"),
        ({"estimate_factor": 0.5}, "at least 1"),
        ({"gpus": 0}, "no GPUs"),
    ],
)
def test_a_demand_that_makes_no_sense_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        demand(**fields)


def test_a_cluster_too_small_for_any_job_is_refused() -> None:
    with pytest.raises(WorkloadError, match="hold no job"):
        generate(WORKLOADS["gangs"], demand(largest=4), seed=1)


def test_faults_come_at_the_published_rate_and_nodes_come_back() -> None:
    nodes = [f"n{i}" for i in range(1_000)]
    found = incidents(nodes, Rates(), 50 * 86_400.0, seed=1)
    lost = [i for i in found if i.kind is Kind.NODE_LOST]
    assert len(lost) == pytest.approx(NODE_FAULTS_PER_NODE_DAY * 1_000 * 50, rel=0.25)
    assert len(found) == 2 * len(lost)
    assert found == incidents(nodes, Rates(), 50 * 86_400.0, seed=1)
    assert not incidents(nodes, Rates(0.0), 1e6, seed=1)


TRACES = {
    "podyard": "at_s,gpus,run_s,queue\n5,8,60,a\n0,16,30,\n",
    "kalos": ("job_id,arrival_s,duration_s,nodes,gpus_per_node\n0,10,60,1,8\n1,5,30,2,8\n"),
    "openb": (
        "name,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\n"
        "a,8,1000,10,70,10\nb,16,1000,5,36,6\nc,1,460,5,9,5\nd,0,0,5,9,5\ne,1,1000,7,,\n"
    ),
    "chronus": "user,num_gpu,submit_time,duration\na,8,10,1\nb,16,5,0.5\nc,0,1,1\n",
    "tiresias": "num_gpu,submit_time,duration\n8,10,60\n16,5,30\n",
}


@pytest.mark.parametrize("name", TRACES)
def test_every_form_of_trace_is_read(name: str) -> None:
    """Each holds a job of 16 GPUs for 30 s and, 5 s or minutes later, one of 8 for 60 s."""
    found = read_trace(TRACES[name])
    assert found.form == name
    assert [(j.spec.gpu_count, j.run_s) for j in found.jobs] == [(16, 30.0), (8, 60.0)]
    assert found.jobs[0].at_s == 0.0
    assert found.jobs[1].at_s == (300.0 if name == "chronus" else 5.0)
    assert found.left_out == {"openb": 3, "chronus": 1}.get(name, 0)
    assert found.jobs[1].spec.duration_s == 60.0


def test_run_times_that_a_trace_lacks_are_drawn_from_the_seed() -> None:
    text = "vc,arrival_s,num_gpu,total_steps\na,0,1,9\nb,5,4,9\n"
    first, again, other = (read_trace(text, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    assert [j.spec.queue for j in first.jobs] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no rows"),
        ("at_s,gpus,run_s\n", "no rows"),
        ("a,b\n1,2\n", "no known form has the columns found, a, b"),
        ("at_s,gpus,run_s\n1,x,2\n", "line 2.*column 'gpus' is 'x'"),
        ("at_s,gpus,run_s\n1,8,2\n1,1.5,2\n", "line 3.*whole GPUs"),
        ("at_s,gpus,run_s\n-1,8,2\n", "line 2.*must lie in 0"),
        ("at_s,gpus,run_s\nnan,8,2\n", "must lie in 0"),
        ("at_s,gpus,run_s\n1,8,inf\n", "must lie in 0"),
        ("at_s,gpus,run_s\n1,8,\n", "a number is needed"),
        ("at_s,gpus,run_s\n1,99999999999,1\n", "must lie in 0"),
        ("at_s,gpus,run_s\n1,0,2\n", "none of its 1 rows"),
    ],
)
def test_a_trace_that_cannot_be_read_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        read_trace(text)


def test_a_trace_is_squeezed_to_a_load() -> None:
    jobs = read_trace(TRACES["podyard"]).jobs
    found = list(squeezed(jobs, 8, 0.5))
    assert found[-1].at_s == pytest.approx(offered(jobs) / (0.5 * 8))
