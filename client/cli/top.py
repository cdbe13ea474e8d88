"""`yardctl top`: the cluster at a glance, once or kept current."""

import shutil
import sys
import time
from collections.abc import Iterator
from typing import Annotated, cast

import typer

from client.cli.options import OutputOption, ServerOption
from client.cli.output import write_object
from client.cli.session import Session, open_session
from client.cli.table import Column, Table
from client.cli.text import CYAN, YELLOW, age, clean, coloured, count, out, until
from client.overview import Fits, LevelFill, Overview, QueueUse, Waits

BAR_CELLS = 40
QUEUES_SHOWN = 15
PAUSE_S = 2.0

_CLEAR = "\x1b[H\x1b[2J"
"""To the top of the screen, and all of it empty."""


def top(
    ctx: typer.Context,
    *,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Keep it current until interrupted.")
    ] = False,
    output: OutputOption = None,
    server: ServerOption = None,
) -> None:
    """Show how full the cluster is, who waits and for what, and what would fit now."""
    session = open_session(ctx, server=server, output=output)
    if not watch or session.data_output is not None:
        _write(session, read(session))
        return
    known = -1
    while True:
        found = read(session)
        if found["revision"] != known:
            known = found["revision"]
            # A pipe gets one picture after the other; a terminal the newest alone.
            if sys.stdout.isatty():
                sys.stdout.write(_CLEAR)
            _write(session, found)
            sys.stdout.flush()
        time.sleep(PAUSE_S)


def read(session: Session) -> Overview:
    return cast(Overview, session.client.overview())


def _write(session: Session, found: Overview) -> None:
    if session.data_output is not None:
        write_object(found, session.data_output)
        return
    for line in summary(found, min(BAR_CELLS, shutil.get_terminal_size().columns - 30)):
        out(line)
    if found["waiting"]:
        out("\nWhat gangs wait for:")
        Table(WAITS, indent="  ").write(found["waiting"])
    for start in found["starts"]:
        out(clean(f"  {start['job']} ({start['gpus']} GPUs) starts in {until(start['at'])}"))
    if found["largest_gangs"]:
        out("\nLargest gang that fits now, in GPUs:")
        Table(fits_columns(found["largest_gangs"]), indent="  ").write(found["largest_gangs"])
    if found["levels"]:
        out("\nRoom by level:")
        Table(LEVELS, indent="  ").write(found["levels"])
    out("\nQueues:")
    busiest = sorted(found["queues"], key=lambda q: (-q["used_gpus"] - q["pending"], q["name"]))
    Table(QUEUES, indent="  ").write(busiest[:QUEUES_SHOWN])


def summary(found: Overview, cells: int) -> Iterator[str]:
    """The first lines: the cluster, its GPUs as a bar, its nodes, its gangs, the scheduler."""
    gpus, nodes, jobs = found["gpus"], found["nodes"], found["jobs"]
    yield clean(f"Cluster {found['cluster'] or '-'}, revision {found['revision']}")
    share = gpus["used"] / gpus["total"] if gpus["total"] else 0.0
    kept = f", {found['claimed_gpus']} kept for somebody" if found["claimed_gpus"] else ""
    yield (
        f"GPUs   {bar(gpus, cells)} {share:4.0%}   {gpus['used']} used, {gpus['free']} free, "
        f"{gpus['aside']} aside, of {gpus['total']}{kept}"
    )
    aside = ", ".join(f"{n} {why}" for why, n in found["aside"].items())
    yield clean(
        f"Nodes  {nodes['usable']} of {nodes['total']} take new gangs, {nodes['free']} are empty"
        + (f"; {aside}" if aside else "")
    )
    states = ", ".join(f"{n} {state}" for state, n in jobs.items())
    yield clean(f"Gangs  {states or 'none'}")
    scheduler = found["scheduler"]
    if scheduler is not None:
        lag = scheduler["lag_revisions"]
        behind = f"{count(lag, 'revision')} behind" if lag else "up to date"
        cycle_ms = 1e3 * (scheduler["decide_s"] + scheduler["commit_s"])
        ready = "" if scheduler["ready"] else "NOT READY, "
        yield f"Leader {ready}{behind}, last cycle {cycle_ms:.1f} ms"


def _cells_of(gpus: dict[str, int], cells: int) -> tuple[int, int, int]:
    """How many cells of a bar are used, free and aside."""
    total = max(gpus["total"], 1)
    used = round(cells * gpus["used"] / total)
    aside = min(cells - used, round(cells * gpus["aside"] / total))
    return used, cells - used - aside, aside


def bar_text(gpus: dict[str, int], cells: int) -> str:
    """Used GPUs as `#`, those aside as `x`, free ones as `.`."""
    used, free, aside = _cells_of(gpus, cells)
    return f"[{'#' * used}{'.' * free}{'x' * aside}]"


def bar(gpus: dict[str, int], cells: int) -> str:
    """The same in colours."""
    used, free, aside = _cells_of(gpus, cells)
    return f"[{coloured('#' * used, CYAN)}{'.' * free}{coloured('x' * aside, YELLOW)}]"


def fits_columns(found: list[Fits]) -> list[Column[Fits]]:
    """One column for the whole cluster and one for each level above the nodes."""

    def room(level: str) -> Column[Fits]:
        return Column(f"ONE {level.upper()}", lambda row: _room(row, level))

    levels = [within["level"] for within in found[0]["within"]][:-1]
    return [
        Column("NODE TYPE", lambda row: row["node_type"]),
        Column("GPUS OF A POD", lambda row: row["gpus_per_pod"]),
        Column("ANYWHERE", lambda row: row["cluster"]["gpus"]),
        *map(room, levels),
    ]


def _room(row: Fits, level: str) -> str:
    for within in row["within"]:
        if within["level"] == level and within["gpus"]:
            return f"{within['gpus']} in {within['domain'] or '-'}"
    return "0"


def _longest(row: Waits) -> str:
    """The gang that waits longest, of those whose names its reader may know."""
    if row["job"] is None or row["since"] is None:
        return "-"
    return f"{row['job']} {age(row['since'])}"


WAITS: list[Column[Waits]] = [
    Column("FOR", lambda row: row["reason"]),
    Column("GANGS", lambda row: row["gangs"]),
    Column("GPUS", lambda row: row["gpus"]),
    Column("LONGEST", _longest),
    Column("MESSAGE", lambda row: row["message"][:90]),
]

LEVELS: list[Column[LevelFill]] = [
    Column("LEVEL", lambda row: row["level"]),
    Column("EMPTY", lambda row: row["empty"]),
    Column("PARTLY", lambda row: row["partly"]),
    Column("FULL", lambda row: row["full"]),
    Column("FREE GPUS SCATTERED", lambda row: f"{row['fragmentation']:.0%}"),
]

QUEUES: list[Column[QueueUse]] = [
    Column("QUEUE", lambda row: row["name"]),
    Column("GPUS", lambda row: row["used_gpus"]),
    Column("QUOTA", lambda row: row["quota_gpus"]),
    Column("LIMIT", lambda row: row["limit_gpus"]),
    Column("WAITING", lambda row: row["pending"]),
]
