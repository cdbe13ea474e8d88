"""`yardctl retry-delivery`."""

from typing import Annotated

import typer

from client.cli.complaints import complain
from client.cli.options import ServerOption
from client.cli.session import open_session
from client.cli.text import out
from client.errors import ApiError


def retry_delivery(
    ctx: typer.Context,
    *,
    ids: Annotated[
        list[str],
        typer.Argument(metavar="ID", help="As `get deliveries` shows them.", show_default=False),
    ],
    server: ServerOption = None,
) -> None:
    """Have messages to hooks sent again that were given up."""
    session = open_session(ctx, server=server)
    worst = 0
    for id_ in ids:
        try:
            session.client.retry_delivery(id_)
        except ApiError as error:
            worst = max(worst, complain(error))
        else:
            out(f"delivery/{id_} is sent again")
    if worst:
        raise typer.Exit(worst)
