"""`yardctl explain`: why a job waits."""

import typer

from client.cli.columns import job_state
from client.cli.options import JobArgument, NamespaceOption, OutputOption, ServerOption
from client.cli.output import write_object
from client.cli.session import open_session
from client.cli.table import write_pairs
from client.cli.text import age, clean, out
from client.cli.verdict import reason_text, verdict_pairs
from client.shapes import Job, Verdict

WAITING = {"pending", "reserved", "suspended"}
PLACED = {"bound", "running", "recovering"}


def explain(
    ctx: typer.Context,
    *,
    job: JobArgument,
    output: OutputOption = None,
    namespace: NamespaceOption = None,
    server: ServerOption = None,
) -> None:
    """Say why a job waits: the rule that binds, the nearest domain and what it lacks."""
    session = open_session(ctx, server=server, namespace=namespace, output=output)
    where = session.job_name(job)
    verdict = session.client.explain(*where)
    if session.data_output is not None:
        write_object(verdict, session.data_output)
    else:
        write_explanation(session.client.job(*where), verdict)


def write_explanation(job: Job, verdict: Verdict) -> None:
    """Write a verdict as text: which job, the message, then what is known beyond it."""
    name = f"{job.get('namespace')}/{job.get('name')}"
    if job.get("state") not in WAITING:
        out(clean(f"job '{name}' is {job_state(job)}; it does not wait"))
        if job.get("state") in PLACED:
            out(clean(f"  See: yardctl placement {name}"))
        return
    since = age(job.get("submitted_at"))
    out(clean(f"job '{name}' is {job_state(job)}, submitted {since} ago"))
    out(clean(f"  {reason_text(verdict)}"))
    write_pairs(verdict_pairs(verdict), indent="  ")
