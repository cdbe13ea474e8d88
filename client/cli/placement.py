"""`yardctl placement`: where a job's pods are."""

import json
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

import typer

from client.cli.map import draw_map
from client.cli.options import JobArgument, NamespaceOption, ServerOption
from client.cli.output import Output, json_text, write_object
from client.cli.session import Session, open_session
from client.cli.table import Column, Table
from client.cli.text import clean, count, out, shown
from client.cli.verdict import spread
from client.shapes import Group, Placement, Span


class Format(StrEnum):
    MAP = "map"
    JSON = "json"
    YAML = "yaml"
    TORCHRUN = "torchrun"
    HOSTFILE = "hostfile"
    RANKFILE = "rankfile"
    SLURM = "slurm"
    MEGATRON = "megatron"
    NCCL = "nccl"


def placement(
    ctx: typer.Context,
    *,
    job: JobArgument,
    format: Annotated[
        Format | None,
        typer.Option(
            "--format", "--output", "-o", help="A rank map as launchers read it; map: a drawing."
        ),
    ] = None,
    namespace: NamespaceOption = None,
    server: ServerOption = None,
) -> None:
    """Show where a job's pods are, and how far its groups spread."""
    session = open_session(ctx, server=server, namespace=namespace)
    where = session.job_name(job)
    before = session.data_output.value if session.data_output is not None else Format.MAP
    chosen = format or Format(before)
    if chosen in {Format.JSON, Format.YAML}:
        write_object(session.client.placement(*where), Output(chosen.value))
    elif chosen is Format.MAP:
        _write_map(session, session.client.placement(*where))
    else:
        text = session.client.placement_text(*where, chosen.value)
        try:
            out(json_text(json.loads(text)))
        except ValueError:
            for line in text.splitlines():
                out(clean(line))


def _write_map(session: Session, found: Placement) -> None:
    pods = found.get("pods") or []
    gpus = sum(len(pod.get("gpus") or []) for pod in pods)
    attempt = f", attempt {found['attempt']}" if found.get("attempt", 1) > 1 else ""
    out(clean(f"{found.get('job')}: {count(len(pods), 'pod')}, {count(gpus, 'GPU')}{attempt}"))
    out(clean(f"domains used: {spread(pods)}"))
    if found.get("search") == "bounded":
        out("search: cut short; a better place may have been missed")
    for line in _price_lines(found):
        out(line)
    out()
    levels = session.client.topology().get("levels", [])[:-1]
    for line in draw_map(levels, session.client.nodes(), pods):
        out(line)
    if groups := found.get("groups"):
        out()
        _write_groups(groups, levels)


def _write_groups(groups: dict[str, Group], levels: list[str]) -> None:
    """How many domains of each level a group of each axis touches: the most, and the mean."""
    out("domains that one group touches:")
    spanned = [
        level
        for level in levels
        if any(level in (group.get("spans") or {}) for group in groups.values())
    ]
    columns: list[Column[tuple[str, Group]]] = [
        Column("GROUP", lambda item: item[0]),
        Column("COUNT", lambda item: item[1].get("count")),
        Column("SIZE", lambda item: item[1].get("size")),
        *(_span_column(level) for level in spanned),
        Column("RAIL-TRUE", lambda item: _rail_text(item[1])),
    ]
    if any(group.get("seconds") is not None for group in groups.values()):
        columns += [
            Column("MB/STEP", lambda item: _scaled(item[1].get("bytes_per_step"), 1e-6)),
            Column("MS/STEP", lambda item: _scaled(item[1].get("seconds"), 1e3)),
            Column("EXPOSED", lambda item: _scaled(item[1].get("exposed_s"), 1e3)),
            Column("BOTTLENECK", lambda item: item[1].get("bottleneck")),
        ]
    Table(columns).write(groups.items())


def _price_lines(found: Placement) -> Iterator[str]:
    """What a training step is predicted to spend talking, and how far that is from the best."""
    seconds = found.get("inter_node_s")
    if seconds is not None:
        yield (
            f"between nodes: {1e3 * seconds:.4g} ms a step, by table {found.get('cost_table')}"
            + (" (assumed; state `model` for real bytes)" if found.get("assumed") else "")
        )
    if found.get("regret") is not None:
        yield f"regret: {shown(found['regret'])}"


def _scaled(value: float | None, factor: float) -> str | None:
    return None if value is None else f"{value * factor:.4g}"


def _span_column(level: str) -> Column[tuple[str, Group]]:
    return Column(
        clean(level).upper(),
        lambda item: _span_text((item[1].get("spans") or {}).get(level)),
    )


def _rail_text(group: Group) -> str:
    """`yes`, or how many of the groups are: `120/128`."""
    good, number = group.get("rail_true_groups"), group.get("count")
    if group.get("rail_true") or good is None:
        return shown(group.get("rail_true"))
    return f"{good}/{number}"


def _span_text(span: Span | None) -> str:
    if not span:
        return "-"
    most, mean = span.get("max"), span.get("mean")
    return shown(most) if mean is None or mean == most else f"{shown(most)} (mean {mean:.3g})"
