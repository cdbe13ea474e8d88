"""`yardctl reserve`: nodes that people keep for themselves for a time."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from client.cli.lengths import length_s
from client.cli.options import OutputOption, ServerOption
from client.cli.output import Output
from client.cli.session import open_session
from client.cli.submit import write_document
from client.cli.text import clean, count, now_s, out
from client.shapes import Reservation


def reserve(
    ctx: typer.Context,
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the reservation.")],
    nodes: Annotated[
        list[str] | None,
        typer.Option("--nodes", metavar="NODES", help="Names or hostlists; may be repeated."),
    ] = None,
    domain: Annotated[
        str | None,
        typer.Option("--domain", metavar="LEVEL:NAME", help="All nodes of it, as in rack:r01."),
    ] = None,
    node_set: Annotated[
        str | None,
        typer.Option("--set", metavar="KIND:NAME", help="A named set, as in power:shelf-3."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--start", metavar="TIME", help="A time, or +2h from now; now without."),
    ] = None,
    end: Annotated[
        str | None, typer.Option("--end", metavar="TIME", help="A time, or +6h from now.")
    ] = None,
    length: Annotated[
        str | None, typer.Option("--for", metavar="LENGTH", help="Instead of --end: 90m, 4h, 2d.")
    ] = None,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="For whoever waits.")] = "",
    output: OutputOption = None,
    server: ServerOption = None,
) -> None:
    """Keep nodes for people: nothing starts there that would not have ended by then.

    What runs there is not stopped. Withdraw it with `yardctl delete reservation NAME`.
    """
    session = open_session(ctx, server=server, output=output)
    if sum(bool(given) for given in (nodes, domain, node_set)) != 1:
        raise typer.BadParameter("give one of --nodes, --domain and --set")
    body: dict[str, object] = {"name": name, "why": why}
    if nodes:
        body["nodes"] = nodes
    if domain:
        level, of_level = _pair(domain, "--domain")
        body["within"] = {"level": level, "domain": of_level}
    if node_set:
        kind, of_kind = _pair(node_set, "--set")
        body["set"] = {"kind": kind, "name": of_kind}
    body |= _times(start, end, length)
    made = session.client.create_reservation(body)
    if session.data_output is not None:
        write_document(session, made)
    elif session.output is Output.NAME:
        out(clean(f"reservation/{made.get('name')}"))
    else:
        out(_said(made))


def _said(made: Reservation) -> str:
    kept = count(len(made.get("nodes", [])), "node")
    span = f"{made.get('starts_at')} to {made.get('ends_at')}"
    return clean(f"reservation/{made.get('name')} made: {kept}, {span}")


def _pair(text: str, option: str) -> tuple[str, str]:
    first, colon, second = text.partition(":")
    if not (first and colon and second):
        raise typer.BadParameter(f"{option}: '{text}' must be two names with a colon between")
    return first, second


def _times(start: str | None, end: str | None, length: str | None) -> dict[str, object]:
    """`starts_at`, unless it is now, and `ends_at`."""
    if (end is None) == (length is None):
        raise typer.BadParameter("give one of --end and --for")
    starts_s = None if start is None else _time(start, "--start")
    if end is not None:
        ends_s = _time(end, "--end")
    else:
        ends_s = (now_s() if starts_s is None else starts_s) + length_s(length or "", "--for")
    times: dict[str, object] = {"ends_at": _stamp(ends_s)}
    return times if starts_s is None else times | {"starts_at": _stamp(starts_s)}


def _time(text: str, option: str) -> float:
    """Unix seconds of a time, in the zone of this machine if it names none, or of `+2h`."""
    if text.startswith("+"):
        return now_s() + length_s(text[1:], option)
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{option}: '{text}' is no time; write 2026-12-01T10:00, with a zone such as Z or "
            "+01:00 if it is not yours, or +2h"
        ) from None


def _stamp(at_s: float) -> str:
    try:
        at = datetime.fromtimestamp(at_s, UTC)
    except (ValueError, OverflowError):
        raise typer.BadParameter("the reservation ends after the end of all calendars") from None
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
