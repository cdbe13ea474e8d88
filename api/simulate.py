"""`podyard simulate`: reads files, shows progress, writes the report; the core does the rest."""

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from scheduler.errors import Problem
from scheduler.importers.node_type_data import BUILT_IN
from scheduler.model.node import FabricLevel, Inventory, NodeRecord
from scheduler.sim.compare import Levels, Outcome, check_policies, simulate
from scheduler.sim.engine import EPOCH_S, Engine
from scheduler.sim.faults import Rates, incidents
from scheduler.sim.report import COLUMNS, html_page, rows
from scheduler.sim.storm import Happening
from scheduler.sim.traces import read_trace
from scheduler.sim.workload import (
    WORKLOADS,
    Demand,
    Submission,
    WorkloadError,
    generate,
    offered,
    squeezed,
)
from scheduler.topology.build import build
from scheduler.topology.tree import Topology

NODE_TYPE = "hgx-h100"
NODES_PER_RACK, NODES_PER_LEAF, NODES_PER_BLOCK = 4, 32, 256
"""32 nodes to a set of leaf switches: NVIDIA, DGX SuperPOD reference architecture (H100)."""

LEVELS = Levels(switches=("block", "leaf"), domains=("block", "leaf", "rack"), spread="leaf")

NODES_MAX = 100_000
TRACE_BYTES_MAX = 200_000_000


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asked for.

    Attributes:
        load: None = as it is in the trace.
        jobs: Jobs to generate, or to take of the trace at most.
        estimate_factor: As in `Demand`.
    """

    trace: Path | None
    workload: str | None
    nodes: int
    load: float | None
    jobs: int | None
    seed: int
    policies: tuple[str, ...]
    out: Path | None
    estimate_factor: float
    faults: bool
    as_json: bool


def run(asked: Asked) -> None:
    """Simulate and print.

    Raises:
        SchedulerError: For what cannot be simulated, before anything is.
    """
    check_policies(asked.policies)
    if not 1 <= asked.nodes <= NODES_MAX:
        raise WorkloadError(Problem("nodes", f"found {asked.nodes}; 1 to {NODES_MAX} are allowed"))
    if asked.out is not None and not asked.out.parent.is_dir():
        raise WorkloadError(Problem("out", f"there is no folder '{asked.out.parent}'"))
    topology = cluster(asked.nodes)
    gpus = sum(kind.gpus for kind in topology.types)
    jobs, conditions = _jobs(asked, gpus)
    outcomes = _simulate(asked, topology, jobs)
    if asked.out is not None:
        title = f"Podyard simulation: {conditions['workload']}"
        asked.out.write_text(html_page(title, conditions, outcomes), encoding="utf-8")
    if asked.as_json:
        print(json.dumps(_document(conditions, outcomes)))  # noqa: T201  the command's output
    else:
        _show(conditions, outcomes)


def cluster(node_count: int) -> Topology:
    """H100 servers of 8 GPUs in racks, leaves and blocks, a non-blocking fabric."""
    nodes = tuple(
        NodeRecord(
            name=f"n{i:06d}",
            type=NODE_TYPE,
            places={
                "block": f"b{i // NODES_PER_BLOCK:04d}",
                "leaf": f"l{i // NODES_PER_LEAF:05d}",
                "rack": f"r{i // NODES_PER_RACK:06d}",
            },
        )
        for i in range(node_count)
    )
    links = FabricLevel(gbps_per_gpu=400.0)
    return build(
        Inventory(
            cluster="simulated",
            levels=("block", "leaf", "rack", "node"),
            scale_up="node",
            node_types={NODE_TYPE: BUILT_IN[NODE_TYPE]},
            nodes=nodes,
            fabric={"leaf": links, "block": links},
        )
    ).topology


def _jobs(asked: Asked, gpus: int) -> tuple[list[Submission], dict[str, str]]:
    """The workload, and what is said of it."""
    conditions = {"cluster": f"{asked.nodes} nodes of 8 GPUs, {NODES_PER_LEAF} to a leaf"}
    if (asked.trace is None) == (asked.workload is None):
        found = "neither" if asked.trace is None else "both"
        raise WorkloadError(Problem("trace", f"found {found} of --trace and --workload; give one"))
    if asked.workload is not None:
        jobs = _generated(asked, asked.workload, gpus)
        conditions["workload"] = f"{asked.workload}, {len(jobs)} jobs"
        conditions["source"] = WORKLOADS[asked.workload].source
    else:
        jobs, told = _traced(asked, gpus)
        conditions["workload"] = told
    span_s = max(jobs[-1].at_s, 1.0)
    conditions["load"] = f"{offered(jobs) / (span_s * gpus):.2f} over {span_s / 86_400:.1f} days"
    factor = asked.estimate_factor
    exact = "exact" if factor == 1 else f"off by a factor of up to {factor:g}"
    conditions["declared durations"] = exact if factor else "none"
    conditions["faults"] = "of nodes, at published rates" if asked.faults else "none"
    conditions["seed"] = str(asked.seed)
    return jobs, conditions


def _generated(asked: Asked, workload: str, gpus: int) -> list[Submission]:
    fit = WORKLOADS.get(workload)
    if fit is None:
        there = ", ".join(WORKLOADS)
        raise WorkloadError(Problem("workload", f"no workload '{workload}'; there are {there}"))
    demand = Demand(
        jobs=2_000 if asked.jobs is None else asked.jobs,
        load=0.95 if asked.load is None else asked.load,
        gpus=gpus,
        largest=gpus,
        estimate_factor=asked.estimate_factor,
        queues=3,
    )
    return generate(fit, demand, asked.seed)


def _traced(asked: Asked, gpus: int) -> tuple[list[Submission], str]:
    path = asked.trace or Path()
    found = read_trace(_text(path), seed=asked.seed, estimate_factor=asked.estimate_factor)
    jobs = [job for job in found.jobs if job.spec.gpu_count <= gpus]
    if not jobs:
        raise WorkloadError(Problem("nodes", f"{gpus} GPUs hold no job of '{path.name}'"))
    too_large = len(found.jobs) - len(jobs)
    if asked.jobs is not None:
        if asked.jobs < 1:
            raise WorkloadError(Problem("jobs", f"found {asked.jobs}; at least 1 is needed"))
        jobs = jobs[: asked.jobs]
    if asked.load is not None:
        if not 0.0 < asked.load <= 10.0:
            raise WorkloadError(Problem("load", f"found {asked.load:g}; it must lie in 0 to 10"))
        jobs = list(squeezed(jobs, gpus, asked.load))
    told = f"{path.name}, form {found.form}, {len(jobs)} jobs"
    if found.left_out:
        told += f", {found.left_out} rows left out"
    if too_large:
        told += f", {too_large} jobs larger than the cluster left out"
    return jobs, told


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > TRACE_BYTES_MAX:
            raise WorkloadError(
                Problem("trace", f"'{path}' is larger than {TRACE_BYTES_MAX // 1_000_000} MB")
            )
        return path.read_text(encoding="utf-8")
    except OSError as error:
        said = error.strerror or str(error)
        raise WorkloadError(Problem("trace", f"cannot read '{path}': {said}")) from None
    except UnicodeDecodeError:
        raise WorkloadError(Problem("trace", f"'{path}' is not text in UTF-8")) from None


def _simulate(asked: Asked, topology: Topology, jobs: Sequence[Submission]) -> list[Outcome]:
    bar = Progress(
        TextColumn("{task.description:>16}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(file=sys.stderr),
        disable=asked.as_json,
    )
    outcomes = []
    with bar:
        for name in asked.policies:
            task = bar.add_task(name, total=len(jobs))
            outcomes.append(
                simulate(
                    name,
                    topology,
                    jobs,
                    levels=LEVELS,
                    seed=asked.seed,
                    prepare=partial(_trouble, seed=asked.seed, jobs=jobs) if asked.faults else None,
                    progress=lambda done, total, task=task: bar.update(task, completed=done),  # type: ignore[misc]  # bound now
                )
            )
    return outcomes


def _trouble(engine: Engine, *, seed: int, jobs: Sequence[Submission]) -> None:
    """Nodes fail and come back while jobs come in; the same for every policy."""
    names = [node.name for node in engine.world.topology.nodes]
    for incident in incidents(names, Rates(), jobs[-1].at_s, seed):
        engine.at(EPOCH_S + incident.at_s, Happening(engine, incident))


def _document(conditions: dict[str, str], outcomes: Sequence[Outcome]) -> dict[str, object]:
    """Figures by policy; null where there is none, as the wait of a job that never began."""
    policies = {
        o.policy: {k: v if math.isfinite(v) else None for k, v in asdict(o.summary).items()}
        | {"steps": o.steps}
        for o in outcomes
    }
    return {"conditions": conditions, "policies": policies}


def _show(conditions: dict[str, str], outcomes: Sequence[Outcome]) -> None:
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 140)
    table = Table(box=None)
    table.add_column("policy")
    for column in COLUMNS:
        table.add_column(column.title, justify="right")
    for row in rows(outcomes):
        table.add_row(*row)
    for key, value in conditions.items():
        if key != "source":
            console.print(f"{key}: {value}", highlight=False)
    console.print(table)
