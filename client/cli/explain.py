"""`yardctl explain`: why a job waits, and what would help."""

from collections.abc import Iterator
from typing import Annotated

import typer

from client.cli.columns import job_state
from client.cli.drawing import (
    draw_changes,
    draw_counts,
    draw_holders,
    draw_line,
    draw_nodes,
    width_of_output,
)
from client.cli.options import JobArgument, NamespaceOption, OutputOption, ServerOption
from client.cli.output import write_object
from client.cli.session import Session, open_session
from client.cli.table import write_pairs
from client.cli.text import age, clean, out
from client.cli.verdict import fact_pairs, reason_text, without_aside
from client.errors import ApiError
from client.shapes import Job, Node, Verdict

WAITING = {"pending", "reserved", "suspended"}
PLACED = {"bound", "running", "recovering"}


def explain(
    ctx: typer.Context,
    *,
    job: JobArgument,
    at: Annotated[
        int | None, typer.Option(min=0, help="As of this revision, from the decision log.")
    ] = None,
    output: OutputOption = None,
    namespace: NamespaceOption = None,
    server: ServerOption = None,
) -> None:
    """Say why a job waits: what it lacks and where, who holds that, and what would help."""
    session = open_session(ctx, server=server, namespace=namespace, output=output)
    where = session.job_name(job)
    verdict = session.client.explain(*where, at=at)
    if session.data_output is not None:
        write_object(verdict, session.data_output)
    elif at is not None:
        write_past(f"{where[0]}/{where[1]}", at, verdict)
    else:
        found = session.client.job(*where)
        nodes = _nodes(session, verdict) if found.get("state") in WAITING else []
        write_explanation(found, verdict, nodes)


def write_past(name: str, at: int, verdict: Verdict) -> None:
    """Write a verdict of the past: nodes are not drawn, as they are others by now."""
    out(clean(f"job '{name}' as of revision {at}"))
    out(clean(f"  {without_aside(reason_text(verdict))}"))
    write_pairs(fact_pairs(verdict, with_aside=True), indent="  ")
    width = width_of_output()
    _write(draw_holders(verdict.get("holders") or []))
    _write(draw_changes(verdict.get("changes") or [], name, width))


def write_explanation(job: Job, verdict: Verdict, nodes: list[Node]) -> None:
    """Write a verdict as text: which job, the message, then what is known beyond it.

    Args:
        nodes: Those of the nearest domain, to be drawn.
    """
    name = f"{job.get('namespace')}/{job.get('name')}"
    if job.get("state") not in WAITING:
        out(clean(f"job '{name}' is {job_state(job)}; it does not wait"))
        if message := verdict.get("message"):
            out(clean(f"  {message}"))
        write_pairs(fact_pairs(verdict, with_aside=True), indent="  ")
        if job.get("state") in PLACED:
            out(clean(f"  See: yardctl placement {name}"))
        return
    since = age(job.get("submitted_at"))
    out(clean(f"job '{name}' is {job_state(job)}, submitted {since} ago"))
    out(clean(f"  {without_aside(reason_text(verdict))}"))
    if wrong := job.get("mismatch"):
        out(clean(f"  held by the audit: {wrong}; podyard doctor --fix mends it"))
    write_pairs(fact_pairs(verdict, with_aside=False), indent="  ")
    width = width_of_output()
    for section in (
        draw_nodes(verdict, nodes, width),
        draw_counts(verdict, width),
        draw_holders(verdict.get("holders") or []),
        draw_changes(verdict.get("changes") or [], name, width),
        draw_line(verdict),
    ):
        _write(section)


def _write(section: Iterator[str]) -> None:
    """Lines, with a blank one before the first."""
    for number, line in enumerate(section):
        if number == 0:
            out()
        out(line)


def _nodes(session: Session, verdict: Verdict) -> list[Node]:
    """The nodes of the nearest domain; none where there is none, or it is gone by now."""
    nearest = verdict.get("nearest") or {}
    level, domain = nearest.get("level"), nearest.get("domain")
    if not level or not domain:
        return []
    try:
        found = list(session.client.nodes(domain=f"{level}:{domain}"))
    except ApiError:
        return []
    return [node for node in found if (node.get("domains") or {}).get(level) == domain]
