"""`yardctl usage`: GPU-hours of a month."""

from enum import StrEnum
from itertools import islice
from typing import Annotated

import typer

from client.cli.options import OutputOption, ServerOption
from client.cli.output import write_list
from client.cli.session import open_session
from client.cli.table import Column, Table
from client.cli.text import note
from client.shapes import Usage

SHOWN_MAX = 100_000
"""Rows of a table at most; a longer list is for -o json."""


class By(StrEnum):
    QUEUE = "queue"
    NAMESPACE = "namespace"
    JOB = "job"
    GPU = "gpu"


def usage(
    ctx: typer.Context,
    *,
    by: Annotated[By, typer.Option("--by", help="What it is summed up by.")] = By.QUEUE,
    month: Annotated[
        str | None, typer.Option("--month", metavar="YYYY-MM", help="In UTC; this one without.")
    ] = None,
    queue: Annotated[str | None, typer.Option(metavar="NAME", help="Only of a queue.")] = None,
    of_namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", metavar="NAME", help="Only of a namespace.")
    ] = None,
    output: OutputOption = None,
    server: ServerOption = None,
) -> None:
    """Show the GPU-hours that were used in a month, most of it first."""
    session = open_session(ctx, server=server, output=output)
    pages = session.client.usage(by=by, month=month, queue=queue, namespace=of_namespace)
    if session.data_output is not None:
        write_list(pages, lambda: pages.revision, session.data_output)
        return
    rows = list(islice(pages, SHOWN_MAX))
    if not rows:
        note("No usage found.")
        return
    rows.sort(key=lambda row: -row.get("gpu_seconds", 0.0))
    Table(_columns(by)).write(rows)


def _columns(by: By) -> list[Column[Usage]]:
    owners: dict[By, list[Column[Usage]]] = {
        By.QUEUE: [Column("QUEUE", lambda row: row.get("queue"))],
        By.NAMESPACE: [Column("NAMESPACE", lambda row: row.get("namespace"))],
        By.GPU: [],
        By.JOB: [
            Column("NAMESPACE", lambda row: row.get("namespace")),
            Column("JOB", lambda row: row.get("job")),
            Column("QUEUE", lambda row: row.get("queue")),
        ],
    }
    return [
        *owners[by],
        Column("GPU", lambda row: row.get("gpu")),
        Column("MONTH", lambda row: row.get("month")),
        Column("GPU-HOURS", lambda row: f"{row.get('gpu_hours', 0.0):.2f}"),
    ]
