"""`yardctl drain`, `undrain` and `fence`."""

import sys
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from client.cli.complaints import complain
from client.cli.lengths import length_s
from client.cli.nodes import NodesArgument, each
from client.cli.options import OutputOption, ServerOption
from client.cli.output import Output
from client.cli.session import IN_VAIN, Session, open_session
from client.cli.submit import write_document
from client.cli.table import Column, Table
from client.cli.text import clean, count, note, now_s, out, until
from client.cli.whatif import place_text
from client.errors import ApiError
from client.fault_shapes import Drained, Leaving
from client.shapes import Node, WhatIfJob

POLL_S = 1.0
"""Between looks at nodes that are being drained."""

BAR = 30
"""Characters of a progress bar."""

ThingsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="NODE|KIND/NAME",
        help="Names of nodes, or sets of them such as rack/r01, leaf/l3, cdu/cdu-1.",
        show_default=False,
    ),
]


def drain(
    ctx: typer.Context,
    *,
    things: ThingsArgument,
    deadline: Annotated[
        str | None,
        typer.Option(
            "--deadline",
            metavar="LENGTH",
            help="Then pods leave though there is no place: 10m, 1h, 0 = at once. Never without.",
        ),
    ] = None,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why, for whoever looks next.")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would move.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not show on a terminal what moves and ask.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Until the nodes are empty.")
    ] = True,
    timeout: Annotated[
        str | None,
        typer.Option("--timeout", metavar="LENGTH", help="Wait no longer; exit code 4 then."),
    ] = None,
    output: OutputOption = None,
    server: ServerOption = None,
) -> None:
    """Have the pods of nodes leave for another place, after saving where their job can.

    On a terminal what would move is shown first. The nodes take no new pods until `yardctl
    undrain`.
    """
    session = open_session(ctx, server=server, output=output)
    body: dict[str, object] = {"reason": reason} if reason else {}
    if deadline is not None:
        body["deadline_s"] = length_s(deadline, "--deadline", zero=True)
    limit_s = None if timeout is None else now_s() + length_s(timeout, "--timeout")
    asks = not (dry_run or yes) and session.data_output is None and is_terminal()
    if asks and not _agreed(session, things, body):
        note("nothing was changed")
        raise typer.Exit(1)
    worst, names = 0, dict[str, None]()
    for thing in things:
        try:
            found = _drain(session, thing, body, dry_run=dry_run)
        except ApiError as error:
            worst = max(worst, complain(error))
            continue
        names |= {node.get("name", ""): None for node in found.get("nodes") or []}
        _show(session, thing, found, is_brief=asks)
    if asks and names:
        note(clean(f"undo: yardctl undrain {' '.join(things)}"))
    if wait and not dry_run and names and session.data_output is None:
        worst = max(worst, _watch(session, list(names), limit_s))
    if worst:
        raise typer.Exit(worst)


def undrain(
    ctx: typer.Context,
    *,
    things: ThingsArgument,
    output: OutputOption = None,
    server: ServerOption = None,
) -> None:
    """Withdraw the drain of nodes: pods that were not told to leave yet stay."""
    session = open_session(ctx, server=server, output=output)
    worst = 0
    for thing in things:
        which = set_of(thing)
        try:
            if which is None:
                nodes = [session.client.undrain(thing.removeprefix("node/"))]
            else:
                nodes = session.client.undrain_set(which)
        except ApiError as error:
            worst = max(worst, complain(error))
            continue
        for node in nodes:
            if session.data_output is not None:
                write_document(session, node)
            else:
                done = "" if session.output is Output.NAME else " undrained"
                out(clean(f"node/{node.get('name')}{done}"))
    if worst:
        raise typer.Exit(worst)


def fence(
    ctx: typer.Context,
    *,
    names: NodesArgument,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="How that is known.")
    ] = "",
    output: OutputOption = None,
    server: ServerOption = None,
) -> None:
    """Say that nothing runs on nodes any more that are silent: their pods count as stopped.

    Only where that is certain, as with a machine whose power is off: what still runs there would
    run twice.
    """
    session = open_session(ctx, server=server, output=output)
    each(session, names, lambda name: session.client.fence(name, reason), "fenced")


def set_of(thing: str) -> tuple[str, str] | None:
    """Kind and name of a set of nodes; None for a single node."""
    kind, slash, name = thing.partition("/")
    if not slash or kind == "node":
        return None
    if not kind or not name:
        raise typer.BadParameter(f"'{thing}' is neither a node nor KIND/NAME of a set, as rack/r01")
    return kind, name


def _drain(session: Session, thing: str, body: dict[str, object], *, dry_run: bool) -> Drained:
    which = set_of(thing)
    if which is None:
        return session.client.drain(thing.removeprefix("node/"), body, dry_run=dry_run)
    return session.client.drain_set(which, body, dry_run=dry_run)


# -- what moves -----------------------------------------------------------------------------------


def is_terminal() -> bool:
    """Whether somebody is there to be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _agreed(session: Session, things: Sequence[str], body: dict[str, object]) -> bool:
    """Show what would move, and whether that is wanted."""
    pods = nodes = worst = 0
    for thing in things:
        try:
            found = _drain(session, thing, body, dry_run=True)
        except ApiError as error:
            worst = max(worst, complain(error))
            continue
        _show(session, thing, found, is_plan=True)
        pods += sum(node.get("pods", 0) for node in found.get("nodes") or [])
        nodes += len(found.get("nodes") or [])
    if worst:
        raise typer.Exit(worst)
    what = f"Drain {count(nodes, 'node')} with {count(pods, 'pod')}?"
    return typer.confirm(what, default=False, err=True)


def _show(
    session: Session,
    thing: str,
    found: Drained,
    *,
    is_plan: bool = False,
    is_brief: bool = False,
) -> None:
    """Say what a drain does.

    Args:
        is_plan: It is shown for people to decide on.
        is_brief: They have seen it already.
    """
    if session.data_output is not None:
        write_document(session, found)
        return
    nodes = found.get("nodes") or []
    if session.output is Output.NAME:
        for node in nodes:
            out(clean(f"node/{node.get('name')}"))
        return
    word = "would be drained" if found.get("dry_run") else "draining"
    deadline = found.get("deadline")
    limit = f", by force {until(deadline)}" if deadline else ""
    several = f" ({count(len(nodes), 'node')})" if set_of(thing) else ""
    out(clean(f"{thing}{several} {word}{limit}"))
    if is_brief:
        return
    leaving = found.get("leaving") or []
    if leaving:
        columns: list[Column[Leaving]] = [
            Column("JOB", lambda job: job.get("job")),
            Column("PODS", lambda job: len(job.get("pods") or [])),
            Column("GPUS", lambda job: job.get("gpus")),
            Column("NODES", lambda job: _few(job.get("nodes") or [])),
            Column("SAVES FIRST", lambda job: "yes" if job.get("saves_first") else "no"),
        ]
        Table(columns, indent="  ").write(leaving)
    if hidden := found.get("hidden"):
        out(f"  and {count(hidden, 'job')} of other tenants")
    if found.get("dry_run"):
        _show_moves(found)
        if not is_plan:
            out("Nothing was changed.")


def _show_moves(found: Drained) -> None:
    moves = found.get("moves") or []
    if moves:
        out("\nOnce they have to leave:")
        columns: list[Column[WhatIfJob]] = [
            Column("JOB", lambda job: job.get("job")),
            Column("EFFECT", lambda job: job.get("effect")),
            Column("WHERE OR WHY", _where_or_why),
        ]
        Table(columns, indent="  ").write(moves)
    elif not found.get("leaving") and not found.get("hidden"):
        out("  nothing is there to move")
    if found.get("settled") is False:
        out("  the copy of the cluster was still changing when this was written")


def _where_or_why(job: WhatIfJob) -> str:
    place = job.get("placement")
    return place_text(place) if place else job.get("message") or "waits"


def _few(names: Sequence[str]) -> str:
    more = f" +{len(names) - 3}" if len(names) > 3 else ""
    return " ".join(names[:3]) + more


# -- until they are empty -------------------------------------------------------------------------


def _watch(session: Session, names: Sequence[str], limit_s: float | None) -> int:
    """Show how many pods have left until none is there; the exit code."""
    bar = Bar(sum(_pods_on(session, names).values()))
    while True:
        left = _pods_on(session, names)
        bar.show(sum(left.values()), [name for name, pods in left.items() if pods])
        if not any(left.values()):
            bar.end()
            out(f"{count(len(names), 'node')} empty")
            return 0
        if limit_s is not None and now_s() >= limit_s:
            bar.end()
            note(clean(f"not empty in time: {_few([n for n, pods in left.items() if pods])}"))
            return IN_VAIN
        time.sleep(POLL_S)


def _pods_on(session: Session, names: Sequence[str]) -> dict[str, int]:
    found: list[Node] = [session.client.node(name) for name in names]
    return {node.get("name", ""): node.get("pods", 0) for node in found}


class Bar:
    """A progress bar on a terminal; elsewhere a line whenever something changes."""

    def __init__(self, pods: int) -> None:
        self._pods = pods
        self._last = ""
        self._is_terminal = sys.stderr.isatty()

    def show(self, left: int, names: Sequence[str]) -> None:
        """How many pods are left, and on which nodes."""
        self._pods = max(self._pods, left)
        gone = self._pods - left
        filled = BAR if not self._pods else BAR * gone // self._pods
        where = f", left on {_few(names)}" if names else ""
        bar = "#" * filled + "." * (BAR - filled)
        text = f"[{bar}] {gone} of {self._pods} pods have left{where}"
        if text == self._last:
            return
        if self._is_terminal:
            blank = " " * max(0, len(self._last) - len(text))
            sys.stderr.write(f"\r{clean(text)}{blank}")
            sys.stderr.flush()
        else:
            note(clean(text))
        self._last = text

    def end(self) -> None:
        """Leave the line."""
        if self._is_terminal and self._last:
            sys.stderr.write("\n")
