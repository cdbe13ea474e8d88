"""`yardctl events`: what happened, oldest first."""

import re
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated

import typer

from client.cli.columns import event_columns
from client.cli.options import (
    AllNamespacesOption,
    NamespaceOption,
    OutputOption,
    ServerOption,
)
from client.cli.output import Output, json_text, write_list, yaml_text
from client.cli.session import Session, open_session
from client.cli.table import Table
from client.cli.text import clean, note, now_s, out, unix_s
from client.errors import ApiError
from client.shapes import Event

RECENT = 200
"""Revisions looked back on without `--since`: a few screens."""

GONE = 410
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def events(
    ctx: typer.Context,
    *,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="REVISION|AGE",
            help=f"After a revision, or as old as 30s, 10m, 2h, 1d; the last {RECENT} without.",
        ),
    ] = None,
    job: Annotated[str | None, typer.Option(metavar="JOB", help="Events of one job.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what happens, until interrupted.")
    ] = False,
    output: OutputOption = None,
    namespace: NamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    server: ServerOption = None,
) -> None:
    """Show what happened, oldest first; with -n, only to things of that namespace."""
    session = open_session(
        ctx,
        server=server,
        namespace=namespace,
        all_namespaces=all_namespaces,
        output=output,
    )
    if follow:
        follow_events(session, since=since, job=job)
    else:
        show_events(session, since=since, job=job)


def follow_events(session: Session, *, since: str | None, job: str | None) -> None:
    """Write events, and from then on each as it happens, over any disconnection."""
    client = session.client
    start = client.revision()
    table = Table(event_columns())
    if since is not None:
        for event in _wanted(session, since, job):
            if event.get("revision", 0) <= start:
                _write_one(session, table, event)
    where = session.job_name(job) if job is not None else None
    namespace = where[0] if where else session.list_namespace_or_all
    for event in client.watch(since=start, namespace=namespace, job=where[1] if where else None):
        _write_one(session, table, event)


def _write_one(session: Session, table: Table[Event], event: Event) -> None:
    if session.output is Output.JSON:
        out(json_text(event, indent=None))
    elif session.output is Output.YAML:
        out("---\n" + yaml_text(event))
    elif session.output is Output.NAME:
        out(clean(f"event/{event.get('revision')}"))
    else:
        table.write([event])
    # Whoever reads through a pipe wants each when it happens.
    sys.stdout.flush()


def show_events(
    session: Session, *, since: str | None = None, job: str | None = None, headed: bool = True
) -> None:
    """Write events in the session's format."""
    found = _wanted(session, since, job)
    if session.data_output:
        write_list(found, lambda: None, session.data_output)
    elif session.output is Output.NAME:
        for event in found:
            out(clean(f"event/{event.get('revision')}"))
    else:
        rows = list(islice(found, 1))
        if not rows:
            note("No events.")
        table = Table(event_columns(), headed=headed)
        table.write(_chained(rows, found))


def _chained(first: list[Event], rest: Iterable[Event]) -> Iterator[Event]:
    yield from first
    yield from rest


def _wanted(session: Session, since: str | None, job: str | None) -> Iterator[Event]:
    if job is not None:
        return _of_job(session, job, since)
    namespace = None if session.options.all_namespaces else session.given_namespace
    start = _start(session, since)
    return (
        event
        for event in session.client.events(since=start)
        if namespace is None or event.get("subject", {}).get("namespace") == namespace
    )


def _of_job(session: Session, job: str, since: str | None) -> Iterator[Event]:
    events = session.client.job_events(*session.job_name(job))
    after, not_before_s = _parsed(since) if since else (0, None)
    return (
        event
        for event in events
        if event.get("revision", 0) > after
        and (not_before_s is None or (unix_s(event.get("at")) or 0.0) >= not_before_s)
    )


def _parsed(since: str) -> tuple[int, float | None]:
    """A revision to start after, and Unix seconds to start at; one of them is idle."""
    if since.isascii() and since.isdecimal():
        return int(since), None
    found = re.fullmatch(r"(\d{1,9})([smhd])", since, re.ASCII)
    if not found:
        raise typer.BadParameter(f"'{since}' is neither a revision nor an age such as 30s, 10m, 2h")
    return 0, now_s() - int(found[1]) * _UNIT_S[found[2]]


def _start(session: Session, since: str | None) -> int:
    if since is None:
        return max(0, session.client.revision() - RECENT)
    after, not_before_s = _parsed(since)
    return after if not_before_s is None else _revision_at(session, not_before_s)


def _revision_at(session: Session, not_before_s: float) -> int:
    """The revision before the first event that is not older; halving, as times only grow."""
    low, high = 0, session.client.revision()
    while low < high:
        middle = (low + high) // 2
        if _is_older(session, middle, not_before_s):
            low = middle + 1
        else:
            high = middle
    return low


def _is_older(session: Session, revision: int, not_before_s: float) -> bool:
    """Whether the first event after a revision is too old."""
    try:
        event = session.client.next_event(revision)
    except ApiError as error:
        # Events that are no longer kept are older than those that are.
        if error.status == GONE:
            return True
        raise
    at_s = None if event is None else unix_s(event.get("at"))
    return at_s is not None and at_s < not_before_s
