"""`yardctl hold`, `release`, `suspend`, `resume` and `requeue`."""

from collections.abc import Sequence
from typing import Annotated

import typer

from client.cli.complaints import complain
from client.cli.options import NamespaceOption, OutputOption, ServerOption
from client.cli.output import Output
from client.cli.session import Session, open_session
from client.cli.submit import job_reference, write_document
from client.cli.text import out
from client.errors import ApiError
from client.shapes import Verb

JobsArgument = Annotated[
    list[str],
    typer.Argument(metavar="JOB", help="NAME or NAMESPACE/NAME, any number.", show_default=False),
]


def hold(
    ctx: typer.Context,
    *,
    jobs: JobsArgument,
    namespace: NamespaceOption = None,
    output: OutputOption = None,
    server: ServerOption = None,
) -> None:
    """Keep jobs from starting; those that run go on."""
    session = open_session(ctx, server=server, namespace=namespace, output=output)
    _each(session, jobs, "hold", "held")


def release(
    ctx: typer.Context,
    *,
    jobs: JobsArgument,
    namespace: NamespaceOption = None,
    output: OutputOption = None,
    server: ServerOption = None,
) -> None:
    """Let held jobs start."""
    session = open_session(ctx, server=server, namespace=namespace, output=output)
    _each(session, jobs, "release", "released")


def suspend(
    ctx: typer.Context,
    *,
    jobs: JobsArgument,
    namespace: NamespaceOption = None,
    output: OutputOption = None,
    server: ServerOption = None,
) -> None:
    """Stop the pods of jobs; they hold nothing until they are resumed."""
    session = open_session(ctx, server=server, namespace=namespace, output=output)
    _each(session, jobs, "suspend", "to be suspended")


def resume(
    ctx: typer.Context,
    *,
    jobs: JobsArgument,
    namespace: NamespaceOption = None,
    output: OutputOption = None,
    server: ServerOption = None,
) -> None:
    """Let suspended jobs wait in line again, with their old age."""
    session = open_session(ctx, server=server, namespace=namespace, output=output)
    _each(session, jobs, "resume", "to be resumed")


def requeue(
    ctx: typer.Context,
    *,
    jobs: JobsArgument,
    namespace: NamespaceOption = None,
    output: OutputOption = None,
    server: ServerOption = None,
) -> None:
    """Stop the pods of jobs and have them placed anew, in their old place of the line."""
    session = open_session(ctx, server=server, namespace=namespace, output=output)
    _each(session, jobs, "requeue", "to be requeued")


def _each(session: Session, texts: Sequence[str], verb: Verb, done: str) -> None:
    """Ask it of every job, going on after one that is refused."""
    worst = 0
    for where in [session.job_name(text) for text in texts]:
        try:
            job = session.client.control_job(*where, verb)
        except ApiError as error:
            worst = max(worst, complain(error))
            continue
        if session.data_output is not None:
            write_document(session, job)
        else:
            out(job_reference(job) + ("" if session.output is Output.NAME else f" {done}"))
    if worst:
        raise typer.Exit(worst)
