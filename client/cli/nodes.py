"""`yardctl cordon` and `yardctl uncordon`."""

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from client.cli.complaints import complain
from client.cli.options import OutputOption, ServerOption
from client.cli.output import Output
from client.cli.session import Session, open_session
from client.cli.submit import write_document
from client.cli.text import clean, out
from client.errors import ApiError
from client.shapes import Node

NodesArgument = Annotated[
    list[str], typer.Argument(metavar="NODE", help="Names of nodes.", show_default=False)
]


def cordon(
    ctx: typer.Context,
    *,
    names: NodesArgument,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why, for whoever looks next.")
    ] = "",
    output: OutputOption = None,
    server: ServerOption = None,
) -> None:
    """Keep new pods off nodes; those that run there stay."""
    session = open_session(ctx, server=server, output=output)
    each(session, names, lambda name: session.client.cordon(name, reason), "cordoned")


def uncordon(
    ctx: typer.Context,
    *,
    names: NodesArgument,
    output: OutputOption = None,
    server: ServerOption = None,
) -> None:
    """Let nodes take new pods again."""
    session = open_session(ctx, server=server, output=output)
    each(session, names, session.client.uncordon, "uncordoned")


def each(session: Session, names: Sequence[str], change: Callable[[str], Node], done: str) -> None:
    """Change every node, going on after one that is refused."""
    worst = 0
    for text in names:
        name = text.removeprefix("node/")
        try:
            node = change(name)
        except ApiError as error:
            worst = max(worst, complain(error))
            continue
        if session.data_output is not None:
            write_document(session, node)
        else:
            out(clean(f"node/{name}{'' if session.output is Output.NAME else ' ' + done}"))
    if worst:
        raise typer.Exit(worst)
