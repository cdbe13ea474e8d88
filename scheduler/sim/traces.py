"""Readers of published job traces: text in, submissions out."""

import csv
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.errors import Problem
from scheduler.sim.workload import FITS, Submission, WorkloadError, draw_run_s, estimate, gang

JOBS_MAX = 1_000_000
GPUS_MAX = 1_000_000
TIME_MAX_S = 1e10
"""Three hundred years; longer is a mistake in the unit."""

MINUTE_S = 60.0

Row = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Trace:
    """What a file held.

    Attributes:
        form: Name of its form.
        jobs: In order of submission, the first at 0 s.
        left_out: Rows without GPUs, or that share one, or that never ran.
    """

    form: str
    jobs: tuple[Submission, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class _Job:
    at_s: float
    gpus: int
    run_s: float
    queue: str = "default"


class _Skipped(Exception):
    """A row that is none of our business."""


@dataclass(frozen=True, slots=True)
class _Form:
    """One form of trace: the columns that tell it, and how a row is read."""

    columns: frozenset[str]
    read: Callable[[Row], _Job]


def read_trace(text: str, *, seed: int = 0, estimate_factor: float = 1.0) -> Trace:
    """Jobs of a trace in any of the known forms, told apart by their columns.

    Args:
        seed: For what the trace does not say: estimates, and run times of the form `gavel`.
        estimate_factor: Declared durations are off by up to this factor; 1 = exact, 0 = none.

    Raises:
        WorkloadError: If the form is not known or a row cannot be read; with its line.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2:
        raise WorkloadError(Problem("trace", "it has no rows; a header and a row are needed"))
    reader = csv.DictReader(lines)
    columns = [name.strip() for name in reader.fieldnames or ()]
    name = _form_of(columns)
    chance = random.Random(f"trace-{seed}")
    jobs: list[_Job] = []
    left_out = 0
    for number, raw in enumerate(reader, 2):
        if len(jobs) >= JOBS_MAX:
            raise WorkloadError(Problem("trace", f"more than {JOBS_MAX} jobs; cut it"))
        row = {(key or "").strip(): (value or "").strip() for key, value in raw.items() if key}
        try:
            jobs.append(FORMS[name].read(row))
        except _Skipped:
            left_out += 1
        except ValueError as error:
            raise WorkloadError(Problem(f"trace line {number}", str(error))) from None
    if not jobs:
        raise WorkloadError(Problem("trace", f"none of its {left_out} rows is a job of whole GPUs"))
    jobs.sort(key=lambda job: job.at_s)
    made = _submissions(jobs, name, chance, estimate_factor)
    return Trace(name, made, left_out)


def _submissions(
    jobs: Sequence[_Job], form: str, chance: random.Random, factor: float
) -> tuple[Submission, ...]:
    first_s = jobs[0].at_s
    out = []
    for number, job in enumerate(jobs):
        run_s = job.run_s or draw_run_s(FITS["philly"], chance)
        spec = gang(job.gpus, f"{form}-{number}")
        spec = replace(spec, queue=job.queue, duration_s=estimate(run_s, factor, chance))
        out.append(Submission(at_s=job.at_s - first_s, spec=spec, run_s=run_s))
    return tuple(out)


def _form_of(columns: Sequence[str]) -> str:
    found = [name for name, form in FORMS.items() if form.columns <= set(columns)]
    if found:
        return found[0]
    known = "; ".join(f"{name}: {', '.join(sorted(f.columns))}" for name, f in FORMS.items())
    told = ", ".join(columns)[:200]
    raise WorkloadError(
        Problem("trace", f"no known form has the columns found, {told}; known are {known}")
    )


def _number(row: Row, column: str, least: float, most: float) -> float:
    text = row.get(column, "")
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"column '{column}' is '{text[:40]}'; a number is needed") from None
    if not (math.isfinite(value) and least <= value <= most):
        raise ValueError(f"column '{column}' is {text[:40]}; it must lie in {least:g} to {most:g}")
    return value


def _seconds(row: Row, column: str, unit_s: float = 1.0) -> float:
    return _number(row, column, 0.0, TIME_MAX_S / unit_s) * unit_s


def _gpus(row: Row, column: str) -> int:
    value = _number(row, column, 0, GPUS_MAX)
    if value != int(value):
        raise ValueError(f"column '{column}' is {value:g}; whole GPUs are needed")
    if not value:
        raise _Skipped
    return int(value)


def _own(row: Row) -> _Job:
    run_s = _seconds(row, "run_s")
    queue = row.get("queue") or "default"
    return _Job(_seconds(row, "at_s"), _gpus(row, "gpus"), max(run_s, 1.0), queue)


def _kalos(row: Row) -> _Job:
    gpus = _gpus(row, "nodes") * _gpus(row, "gpus_per_node")
    return _Job(_seconds(row, "arrival_s"), gpus, max(_seconds(row, "duration_s"), 1.0))


def _openb(row: Row) -> _Job:
    gpus = _gpus(row, "num_gpu")
    began = row.get("scheduled_time") or row.get("creation_time", "")
    if _number(row, "gpu_milli", 0, 1_000 * GPUS_MAX) != 1_000 or not row.get("deletion_time"):
        raise _Skipped
    run_s = _seconds(row, "deletion_time") - _seconds({"began": began}, "began")
    if run_s <= 0:
        raise _Skipped
    return _Job(_seconds(row, "creation_time"), gpus, max(run_s, 1.0))


def _chronus(row: Row) -> _Job:
    run_s = _seconds(row, "duration", MINUTE_S)
    at_s = _seconds(row, "submit_time", MINUTE_S)
    return _Job(at_s, _gpus(row, "num_gpu"), max(run_s, 1.0), row["user"] or "default")


def _tiresias(row: Row) -> _Job:
    run_s = max(_seconds(row, "duration"), 1.0)
    return _Job(_seconds(row, "submit_time"), _gpus(row, "num_gpu"), run_s)


def _gavel(row: Row) -> _Job:
    return _Job(_seconds(row, "arrival_s"), _gpus(row, "num_gpu"), 0.0, row["vc"] or "default")


FORMS: Mapping[str, _Form] = {
    "podyard": _Form(frozenset({"at_s", "gpus", "run_s"}), _own),
    "kalos": _Form(frozenset({"arrival_s", "duration_s", "nodes", "gpus_per_node"}), _kalos),
    "openb": _Form(frozenset({"num_gpu", "gpu_milli", "creation_time", "deletion_time"}), _openb),
    "chronus": _Form(frozenset({"user", "num_gpu", "submit_time", "duration"}), _chronus),
    "tiresias": _Form(frozenset({"num_gpu", "submit_time", "duration"}), _tiresias),
    "gavel": _Form(frozenset({"vc", "arrival_s", "num_gpu"}), _gavel),
}
"""Forms by name, the more particular ones first.

podyard: our own; at_s, gpus, run_s, and queue if there is one. kalos: the plain fields of
hyunnnchoi/AcmeTrace. openb: pods of alibaba/clusterdata, cluster-trace-gpu-v2023; those that share
a GPU are left out. chronus: Philly jobs of S-Lab-System-Group/ChronusArtifact, taken as minutes:
their span is then 14 days, and their mean run time 4.4 h where Philly's is 5.0 h. tiresias:
SymbioticLab/Tiresias, in seconds. gavel: Philly arrivals and GPU counts of
stanford-futuredata/gavel, which has no run times: they are drawn from the fit to Philly.
"""
