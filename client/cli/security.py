"""`yardctl whoami` and `audit`: who one is, and who changed what."""

from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from typing import Annotated

import typer

from client.cli.lengths import length_s
from client.cli.options import OutputOption, ServerOption
from client.cli.output import write_list, write_object
from client.cli.session import open_session
from client.cli.table import Column, Table
from client.cli.text import clean, note, now_s, out
from client.security_shapes import AuditEntry, WhoAmI


class Outcome(StrEnum):
    DONE = "done"
    REFUSED = "refused"


def whoami(ctx: typer.Context, *, output: OutputOption = None, server: ServerOption = None) -> None:
    """Show who the service takes you for, and what you are bound to."""
    session = open_session(ctx, server=server, output=output)
    found = session.client.whoami()
    if session.data_output is not None:
        write_object(dict(found), session.data_output)
        return
    out(clean(_sentence(found)))


def audit(
    ctx: typer.Context,
    *,
    actor: Annotated[str | None, typer.Option(metavar="NAME", help="Only of a caller.")] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="As in 2026-12-01T10:00:00Z, or 2h for so long ago."),
    ] = None,
    path: Annotated[
        str | None, typer.Option(metavar="PATH", help="Only of paths that begin so.")
    ] = None,
    outcome: Annotated[Outcome | None, typer.Option(help="Of writes.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Newest entries.")] = 100,
    output: OutputOption = None,
    server: ServerOption = None,
) -> None:
    """Show who changed what, or wanted to, the newest first; for admins."""
    session = open_session(ctx, server=server, output=output)
    pages = session.client.audit(
        actor=actor,
        since=None if since is None else _time(since),
        path=path,
        outcome=None if outcome is None else outcome.value,
    )
    if session.data_output is not None:
        write_list(islice(pages, limit), lambda: pages.revision, session.data_output)
        return
    rows = list(islice(pages, limit))
    if not rows:
        note("No entries found.")
        return
    Table(_COLUMNS).write(rows)


def _time(text: str) -> str:
    """A time as the service takes it; lengths are counted back from now."""
    if "T" in text:
        return text
    at = datetime.fromtimestamp(now_s() - length_s(text, "--since"), UTC)
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def _sentence(found: WhoAmI) -> str:
    if not found.get("asked"):
        return "this service asks nobody who they are: everybody may do everything"
    bound = [
        f"bound to {noun}s {', '.join(names)}"
        for noun, names in (
            ("namespace", found.get("namespaces")),
            ("node", found.get("nodes")),
        )
        if names is not None
    ]
    return "; ".join([f"{found.get('name')}, with the role {found.get('role')}", *bound])


_COLUMNS: list[Column[AuditEntry]] = [
    Column("AT", lambda row: row.get("at")),
    Column("ACTOR", lambda row: row.get("actor")),
    Column("ROLE", lambda row: row.get("role")),
    Column("STATUS", lambda row: row.get("status")),
    Column("METHOD", lambda row: row.get("method")),
    Column("PATH", lambda row: row.get("path")),
    Column("FROM", lambda row: row.get("address")),
]
