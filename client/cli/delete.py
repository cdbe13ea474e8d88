"""`yardctl delete`: cancel jobs, or delete the records of those that have ended."""

from typing import Annotated

import typer

from client.cli.complaints import complain
from client.cli.kinds import JOB, split_things
from client.cli.options import NamespaceOption, OutputOption, ServerOption
from client.cli.output import Output
from client.cli.session import open_session
from client.cli.submit import job_reference, write_document
from client.cli.text import out
from client.errors import ApiError

NOT_FOUND = 404
ENDED = {"succeeded", "failed", "cancelled"}


def delete(
    ctx: typer.Context,
    *,
    things: Annotated[
        list[str],
        typer.Argument(metavar="job", help="job NAME..., or job/NAME...", show_default=False),
    ],
    ignore_not_found: Annotated[
        bool, typer.Option("--ignore-not-found", help="A job that is not there is no error.")
    ] = False,
    output: OutputOption = None,
    namespace: NamespaceOption = None,
    server: ServerOption = None,
) -> None:
    """Cancel jobs and free their GPUs; the record of a job that has ended is deleted."""
    session = open_session(ctx, server=server, namespace=namespace, output=output)
    _, names = split_things(things, (JOB,))
    if not names:
        raise typer.BadParameter("name at least one job")
    wheres = [session.split_name(name) for name in names]
    worst = 0
    for where in wheres:
        try:
            ended = session.client.job(*where).get("state") in ENDED
            job = session.client.cancel(*where)
        except ApiError as error:
            if error.status != NOT_FOUND or not ignore_not_found:
                worst = max(worst, complain(error))
            continue
        if session.data_output is not None:
            write_document(session, job)
        else:
            done = "record deleted" if ended else "cancelled"
            out(job_reference(job) + ("" if session.output is Output.NAME else f" {done}"))
    if worst:
        raise typer.Exit(worst)
