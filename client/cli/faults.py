"""`yardctl faults`: what was reported of nodes, reporting it, and saying that it is over."""

from typing import Annotated

import typer

from client.cli.breaker import tell_if_open
from client.cli.complaints import complain
from client.cli.drain import ThingsArgument, set_of
from client.cli.options import OutputOption, ServerOption
from client.cli.output import Output, write_list
from client.cli.session import Session, open_session
from client.cli.submit import write_document
from client.cli.table import Column, Table
from client.cli.text import age, clean, note, out, ranges
from client.errors import ApiError
from client.fault_shapes import Fault

app = typer.Typer(
    name="faults",
    help="Faults of nodes: list, report, clear.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list")
def list_(
    ctx: typer.Context,
    *,
    node: Annotated[str | None, typer.Argument(metavar="[NODE]", show_default=False)] = None,
    code: Annotated[
        str | None, typer.Option("--code", metavar="CODE", help="Of this code only.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Those that are over too.")] = False,
    output: OutputOption = None,
    server: ServerOption = None,
) -> None:
    """Show the open faults, oldest first."""
    session = open_session(ctx, server=server, output=output)
    name = None if node is None else node.removeprefix("node/")
    if name is not None:
        session.client.node(name)
    found = session.client.faults(node=name, code=code, is_open=None if all_ else True)
    if session.data_output is not None:
        write_list(found, lambda: found.revision, session.data_output)
        return
    faults = list(found)
    if session.output is not Output.NAME:
        tell_if_open(session)
    if session.output is Output.NAME:
        for fault in faults:
            out(_reference(fault))
    elif faults:
        columns = fault_columns(with_end=all_)
        wide = session.is_wide
        Table([column for column in columns if wide or not column.wide]).write(faults)
    else:
        note("No faults found." if all_ else "No open faults found.")


@app.command("report")
def report(
    ctx: typer.Context,
    *,
    things: ThingsArgument,
    code: Annotated[
        str | None, typer.Option("--code", metavar="CODE", help="As on the page of faults.")
    ] = None,
    xid: Annotated[
        int | None, typer.Option("--xid", metavar="NUMBER", help="Of a GPU driver, instead.")
    ] = None,
    gpus: Annotated[
        list[int] | None, typer.Option("--gpu", metavar="INDEX", help="May be repeated.")
    ] = None,
    rail: Annotated[int | None, typer.Option("--rail", metavar="INDEX")] = None,
    message: Annotated[
        str, typer.Option("--message", metavar="TEXT", help="For whoever looks next.")
    ] = "",
    output: OutputOption = None,
    server: ServerOption = None,
) -> None:
    """Report a fault of nodes, or of every node of a set; what its code asks for is done."""
    session = open_session(ctx, server=server, output=output)
    if (code is None) == (xid is None):
        raise typer.BadParameter("give one of --code and --xid")
    given = {"code": code, "xid": xid, "gpus": gpus, "rail": rail, "message": message or None}
    body = {key: value for key, value in given.items() if value is not None}
    worst = 0
    for thing in things:
        which = set_of(thing)
        try:
            if which is None:
                name = thing.removeprefix("node/")
                made = [session.client.report_fault(name, body)]
            else:
                made = session.client.report_set_fault(which, body)
        except ApiError as error:
            worst = max(worst, complain(error))
            continue
        for fault in made:
            _told(session, fault, f"{fault.get('code')}: {fault.get('action')}")
    if worst:
        raise typer.Exit(worst)


@app.command("clear")
def clear(
    ctx: typer.Context,
    *,
    node: Annotated[str, typer.Argument(metavar="NODE", show_default=False)],
    ids: Annotated[
        list[int] | None,
        typer.Argument(metavar="[ID]...", help="Of the faults; all open ones without."),
    ] = None,
    output: OutputOption = None,
    server: ServerOption = None,
) -> None:
    """Say that faults of a node are over; with the last one it may be used again."""
    session = open_session(ctx, server=server, output=output)
    name = node.removeprefix("node/")
    if not ids:
        session.client.node(name)
        ids = [fault.get("id", 0) for fault in session.client.faults(node=name, is_open=True)]
        if not ids:
            note(clean(f"node '{name}' has no open faults"))
    worst = 0
    for id_ in ids:
        try:
            fault = session.client.clear_fault(name, id_)
        except ApiError as error:
            worst = max(worst, complain(error))
        else:
            _told(session, fault, "cleared")
    if worst:
        raise typer.Exit(worst)


@app.command("reset-breaker")
def reset_breaker(ctx: typer.Context, *, server: ServerOption = None) -> None:
    """Have the scheduler act again although much failed: failures until now count no more."""
    session = open_session(ctx, server=server)
    out(clean(f"failures count from {session.client.reset_breaker()} on"))


def fault_columns(*, with_end: bool = False, with_node: bool = True) -> list[Column[Fault]]:
    """Of faults; those of one node need not name it."""
    node: list[Column[Fault]] = [Column("NODE", lambda fault: fault.get("node"))]
    ended: list[Column[Fault]] = [Column("CLEARED", lambda fault: _ended(fault))]
    return [
        Column("ID", lambda fault: fault.get("id")),
        *(node if with_node else []),
        Column("CODE", lambda fault: fault.get("code")),
        Column("ACTION", lambda fault: fault.get("action")),
        Column("GPUS", lambda fault: ranges(fault.get("gpus") or [])),
        Column("RAIL", lambda fault: fault.get("rail")),
        Column("AGE", lambda fault: age(fault.get("at"))),
        *(ended if with_end else []),
        Column("SET", _set_text, wide=True),
        Column("MESSAGE", lambda fault: fault.get("message")),
    ]


def _ended(fault: Fault) -> str:
    stamp = fault.get("cleared_at")
    return f"{age(stamp)} ago" if stamp else "open"


def _set_text(fault: Fault) -> str | None:
    of = fault.get("set")
    return f"{of.get('kind')}/{of.get('name')}" if of else None


def _reference(fault: Fault) -> str:
    return clean(f"fault/{fault.get('node')}/{fault.get('id')}")


def _told(session: Session, fault: Fault, done: str) -> None:
    if session.data_output is not None:
        write_document(session, fault)
    else:
        out(_reference(fault) + ("" if session.output is Output.NAME else f" {clean(done)}"))
