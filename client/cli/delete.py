"""`yardctl delete`: cancel jobs, delete records of those that ended, withdraw reservations."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

import typer

from client.cli.complaints import complain
from client.cli.kinds import JOB, RESERVATION, split_things
from client.cli.options import NamespaceOption, OutputOption, ServerOption
from client.cli.output import Output
from client.cli.session import Session, open_session
from client.cli.submit import job_reference, write_document
from client.cli.text import clean, out
from client.errors import ApiError

NOT_FOUND = 404
ENDED = {"succeeded", "failed", "cancelled"}


def delete(
    ctx: typer.Context,
    *,
    things: Annotated[
        list[str],
        typer.Argument(
            metavar="KIND",
            help="KIND NAME..., or KIND/NAME...; kinds: job, reservation (res).",
            show_default=False,
        ),
    ],
    ignore_not_found: Annotated[
        bool, typer.Option("--ignore-not-found", help="What is not there is no error.")
    ] = False,
    output: OutputOption = None,
    namespace: NamespaceOption = None,
    server: ServerOption = None,
) -> None:
    """Cancel jobs and free their GPUs; the record of a job that has ended is deleted.

    A reservation is withdrawn: its nodes take pods again.
    """
    session = open_session(ctx, server=server, namespace=namespace, output=output)
    kind, names = split_things(things, (JOB, RESERVATION))
    if not names:
        raise typer.BadParameter(f"name at least one {kind.name}")
    calls: list[Callable[[], None]]
    if kind is JOB:
        wheres = [session.split_name(name) for name in names]
        calls = [partial(_cancel, session, where) for where in wheres]
    else:
        calls = [partial(_withdraw, session, name) for name in names]
    worst = 0
    for call in calls:
        try:
            call()
        except ApiError as error:
            if error.status != NOT_FOUND or not ignore_not_found:
                worst = max(worst, complain(error))
    if worst:
        raise typer.Exit(worst)


def _cancel(session: Session, where: tuple[str, str]) -> None:
    ended = session.client.job(*where).get("state") in ENDED
    job = session.client.cancel(*where)
    if session.data_output is not None:
        write_document(session, job)
    else:
        done = "record deleted" if ended else "cancelled"
        out(job_reference(job) + ("" if session.output is Output.NAME else f" {done}"))


def _withdraw(session: Session, name: str) -> None:
    was = session.client.delete_reservation(name)
    if session.data_output is not None:
        write_document(session, was)
    else:
        done = "" if session.output is Output.NAME else " withdrawn"
        out(clean(f"reservation/{name}{done}"))
