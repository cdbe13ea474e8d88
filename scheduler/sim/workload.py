"""Jobs to simulate: what is submitted when, and how long it really runs."""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.errors import Problem, SchedulerError
from scheduler.model.job import IfNeverFits, JobSpec, ParallelSizes, Rule

GPUS_PER_NODE = 8
"""GPUs above which the generators ask for whole nodes."""


class WorkloadError(SchedulerError):
    """A workload or a trace that cannot be simulated."""


@dataclass(frozen=True, slots=True)
class Submission:
    """One job of a workload.

    Attributes:
        at_s: Seconds from the start of the simulation.
        run_s: How long one attempt runs until all its pods exit 0; above 0. What the scheduler
            is told is `spec.duration_s`.
        stop_s: How long its pods take to stop once told to.
        cancel_s: Seconds after submission at which its owner cancels it; None = never.
    """

    at_s: float
    spec: JobSpec
    run_s: float
    stop_s: float = 0.0
    cancel_s: float | None = None


@dataclass(frozen=True, slots=True)
class Fit:
    """Published figures of one cluster's GPU jobs, and the distribution fitted to them.

    Run times are log-normal: the published median and mean fix its two parameters, and what is
    drawn above the published maximum is drawn again.

    Attributes:
        median_s, mean_s, max_s: Of the run times of GPU jobs.
        gpus: GPUs of a job -> relative weight; the mean over them is near `mean_gpus`.
        mean_gpus, median_gpus: As published.
        source: Where the figures are from, and what of `gpus` is published and what is fitted.
    """

    name: str
    median_s: float
    mean_s: float
    max_s: float
    mean_gpus: float
    median_gpus: float
    gpus: Mapping[int, float]
    source: str

    @property
    def sigma(self) -> float:
        """Of the logarithm of run times: mean / median = exp(sigma^2 / 2)."""
        return math.sqrt(2.0 * math.log(self.mean_s / self.median_s))


_SUMMARY = (
    "Run times and mean, median and largest GPU counts: data/cluster_summary.csv of"
    " InternLM/AcmeTrace (CC-BY-4.0), which compares the published traces;"
)

FITS: Mapping[str, Fit] = {
    "philly": Fit(
        "philly", 874.0, 18_006.055, 4_240_676.0, 1.928, 1.0,
        {1: 0.843, 2: 0.030, 4: 0.060, 8: 0.055, 16: 0.008, 32: 0.003, 64: 0.0007, 128: 0.0003},
        f"{_SUMMARY} Jeon et al., USENIX ATC 2019. Shares of 1 to 32 GPUs follow the 15,264 and"
        " 10,000 Philly jobs kept by Gavel and Chronus, scaled to the published mean.",
    ),
    "helios": Fit(
        "helios", 206.0, 6_651.681, 4_320_009.0, 3.716, 1.0,
        {1: 0.660, 2: 0.065, 4: 0.105, 8: 0.132, 16: 0.022, 32: 0.010, 64: 0.0042, 128: 0.0014,
         256: 0.0003, 2048: 0.00001},
        f"{_SUMMARY} Hu et al., SC 2021. That most jobs ask for one GPU and few for more than one"
        " node is published; the shares are fitted to the published mean.",
    ),
    "seren": Fit(
        "seren", 122.0, 1_414.335, 1_209_604.0, 5.68, 1.0,
        {1: 0.605, 2: 0.070, 4: 0.080, 8: 0.208, 16: 0.014, 32: 0.010, 64: 0.006, 128: 0.004,
         256: 0.0018, 512: 0.0011, 1024: 0.0001},
        f"{_SUMMARY} Hu et al., NSDI 2024. The shares are fitted to the published mean.",
    ),
    "kalos": Fit(
        "kalos", 124.0, 1_259.689, 625_740.0, 26.77, 1.0,
        {1: 0.720, 2: 0.020, 4: 0.020, 8: 0.150, 16: 0.006, 32: 0.008, 64: 0.012, 128: 0.003,
         256: 0.025, 512: 0.021, 1024: 0.006},
        f"{_SUMMARY} Hu et al., NSDI 2024. Shares above one node follow the 319 jobs of"
        " hyunnnchoi/AcmeTrace (converted_kalos_trace.csv), scaled to the published mean.",
    ),
}  # fmt: skip

GANGS = Fit(
    "gangs", 7_200.0, 11_870.0, 172_800.0, 125.0, 32.0,
    {8: 0.24, 16: 0.16, 32: 0.16, 64: 0.14, 96: 0.04, 128: 0.08, 256: 0.08, 512: 0.06, 1024: 0.04},
    "Whole nodes only, for questions of spread: sizes from one node to 128 as in the 319 Kalos jobs"
    " of hyunnnchoi/AcmeTrace, with the middle sizes that Kalos lacks; run times of hours (sigma 1)"
    " are our own choice, so that a run of a few thousand jobs is not ruled by one of them.",
)  # fmt: skip

WORKLOADS: Mapping[str, Fit] = {**FITS, GANGS.name: GANGS}


@dataclass(frozen=True, slots=True)
class Demand:
    """How much work is offered to a cluster.

    Attributes:
        jobs: Number of jobs; at least 1.
        load: GPU-seconds offered / GPU-seconds the cluster has until the last job is submitted.
        gpus: GPUs of the cluster.
        largest: Jobs that ask for more GPUs are drawn again.
        estimate_factor: Declared durations are off by up to this factor either way; 1 = exact,
            0 = not declared.
        queues: Jobs are dealt over so many queues, the first gets the most.
        patience_s: Of every job; None = the default rule.
    """

    jobs: int
    load: float
    gpus: int
    largest: int
    estimate_factor: float = 1.0
    queues: int = 1
    patience_s: float | None = None
    rules: tuple[Rule, ...] = ()

    def __post_init__(self) -> None:
        problems = []
        if self.jobs < 1:
            problems.append(Problem("jobs", f"found {self.jobs}; at least 1 is needed"))
        if not 0.0 < self.load <= 10.0:
            problems.append(Problem("load", f"found {self.load:g}; it must lie in 0 to 10"))
        if self.estimate_factor and self.estimate_factor < 1.0:
            problems.append(
                Problem(
                    "estimate_factor",
                    f"found {self.estimate_factor:g}; 0 = no estimates, else at least 1",
                )
            )
        if self.gpus < 1 or self.largest < 1:
            problems.append(Problem("gpus", "the cluster has no GPUs"))
        if problems:
            raise WorkloadError(problems)


def generate(fit: Fit, demand: Demand, seed: int) -> list[Submission]:
    """Jobs with Poisson arrivals whose work is the demanded load, the same for the same seed.

    Raises:
        WorkloadError: If no size of the fit is as small as the cluster.
    """
    chance = random.Random(f"{fit.name}-{seed}")
    sizes = [(gpus, weight) for gpus, weight in fit.gpus.items() if gpus <= demand.largest]
    if not sizes:
        raise WorkloadError(
            Problem("nodes", f"the cluster's {demand.largest} GPUs hold no job of '{fit.name}'")
        )
    drawn = [_draw(fit, sizes, chance) for _ in range(demand.jobs)]
    work = sum(gpus * run_s for gpus, run_s in drawn)
    span_s = work / (demand.load * demand.gpus)
    # Given their number, Poisson arrivals are uniform: so the load is met exactly.
    times = sorted(chance.uniform(0.0, span_s) for _ in drawn)
    return [
        Submission(
            at_s=at_s,
            spec=replace(
                gang(gpus, f"{fit.name}-{number}"),
                duration_s=estimate(run_s, demand.estimate_factor, chance),
                queue=_queue(demand.queues, chance),
                patience_s=demand.patience_s,
                rules=demand.rules,
            ),
            run_s=run_s,
        )
        for number, (at_s, (gpus, run_s)) in enumerate(zip(times, drawn, strict=True))
    ]


def _draw(fit: Fit, sizes: Sequence[tuple[int, float]], chance: random.Random) -> tuple[int, float]:
    gpus = chance.choices([s for s, _ in sizes], [w for _, w in sizes])[0]
    return gpus, draw_run_s(fit, chance)


def draw_run_s(fit: Fit, chance: random.Random) -> float:
    """A run time, at least one second."""
    while True:
        run_s = chance.lognormvariate(math.log(fit.median_s), fit.sigma)
        if run_s <= fit.max_s:
            return max(run_s, 1.0)


def estimate(run_s: float, factor: float, chance: random.Random) -> float | None:
    """What the owner declares: off by up to `factor` either way, evenly in the logarithm."""
    if not factor:
        return None
    return run_s * float(factor ** chance.uniform(-1.0, 1.0))


def _queue(queues: int, chance: random.Random) -> str:
    """Half of all jobs are of the first queue, half of the rest of the second, and so on."""
    number = 0
    while number < queues - 1 and chance.random() < 0.5:
        number += 1
    return "default" if queues <= 1 else f"q{number}"


def gang(gpus: int, name: str) -> JobSpec:
    """A training job of so many GPUs: tp in the node, pp of at most 8 nodes, the rest dp."""
    nodes = max(1, gpus // GPUS_PER_NODE)
    if gpus % GPUS_PER_NODE or nodes == 1:
        sizes = ParallelSizes(dp=gpus)
    else:
        pp = next(p for p in (8, 4, 2, 1) if p == 1 or (nodes % p == 0 and nodes // p > 1))
        sizes = ParallelSizes(tp=GPUS_PER_NODE, pp=pp, dp=nodes // pp)
    return JobSpec(name=name, parallelism=sizes, if_never_fits=IfNeverFits.WAIT)


def offered(jobs: Sequence[Submission]) -> float:
    """GPU-seconds of a workload."""
    return sum(job.spec.gpu_count * job.run_s for job in jobs)


def squeezed(jobs: Sequence[Submission], gpus: int, load: float) -> Iterator[Submission]:
    """The same jobs with all times of arrival scaled so that they offer this load to the GPUs."""
    span_s = max((job.at_s for job in jobs), default=0.0)
    wanted_s = offered(jobs) / (load * gpus)
    scale = wanted_s / span_s if span_s else 1.0
    for job in jobs:
        yield replace(job, at_s=job.at_s * scale)
