"""`yardctl context`: several services, by name."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from client.access import Access
from client.cli.table import Column, Table
from client.cli.text import clean, note, out
from client.contexts import (
    Context,
    Contexts,
    contexts_file,
    is_context_name,
    load_contexts,
    save_contexts,
)

app = typer.Typer(
    name="context",
    help="Choose among several services; PODYARD_CONTEXT and -s go before what is chosen.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

ContextName = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]


@app.command("list")
def list_contexts() -> None:
    """Show the services that are known, and which one is in use."""
    there = load_contexts()
    if not there.known:
        note(f"No contexts yet in {contexts_file()}. See: yardctl context set NAME --server URL")
        return
    rows = sorted(there.known.items())
    Table(_columns(there)).write(rows)


@app.command("set")
def set_context(
    *,
    name: ContextName,
    server: Annotated[str | None, typer.Option("--server", "-s", metavar="URL")] = None,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", metavar="NAME")] = None,
    token: Annotated[
        str | None, typer.Option(metavar="TOKEN", help="Kept in the file; '-' asks for it.")
    ] = None,
    token_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="File that holds the token.")
    ] = None,
    ca_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Authority of its certificate, PEM.")
    ] = None,
) -> None:
    """Add a service, or change what is known of it; the first one is used at once."""
    if not is_context_name(name):
        raise typer.BadParameter(
            f"found '{name}'; a name has 1 to 63 letters, digits, '-', '_' and '.'",
            param_hint="NAME",
        )
    if server is not None and not server.startswith(("http://", "https://")):
        raise typer.BadParameter(f"found '{server}'; it begins with http:// or https://")
    there = load_contexts()
    before = there.known.get(name)
    if before is None and not server:
        raise typer.BadParameter(f"there is no context '{name}' yet; give its --server")
    old = before or Context()
    known = dict(there.known)
    known[name] = Context(
        old.server if server is None else server,
        old.namespace if namespace is None else namespace,
        _access(old.access, token, token_file, ca_file),
    )
    save_contexts(Contexts(there.current or name, known))
    out(clean(f"context '{name}' {'added' if before is None else 'changed'}"))


def _access(old: Access, token: str | None, token_file: str | None, ca_file: str | None) -> Access:
    """What was known, with what is given; a token and a file with one replace each other."""
    if token and token_file:
        raise typer.BadParameter("give --token or --token-file, not both")
    if token == "-":  # noqa: S105 - the word for asking
        token = typer.prompt("Token", hide_input=True)
    if token is None and token_file is None:
        token, token_file = old.token, old.token_file
    return Access(
        token or "",
        str(Path(token_file).absolute()) if token_file else "",
        old.ca_file if ca_file is None else str(Path(ca_file).absolute()) if ca_file else "",
    )


@app.command("use")
def use_context(*, name: ContextName) -> None:
    """Use a service from now on."""
    there = load_contexts()
    there.get(name)
    save_contexts(replace(there, current=name))
    out(clean(f"'{name}' is used from now on"))


@app.command("delete")
def delete_context(*, name: ContextName) -> None:
    """Forget a service."""
    there = load_contexts()
    there.get(name)
    known = {other: context for other, context in there.known.items() if other != name}
    save_contexts(Contexts("" if there.current == name else there.current, known))
    out(clean(f"context '{name}' deleted"))


def _columns(there: Contexts) -> list[Column[tuple[str, Context]]]:
    return [
        Column("IN USE", lambda row: "*" if row[0] == there.current else ""),
        Column("NAME", lambda row: row[0]),
        Column("SERVER", lambda row: row[1].server),
        Column("NAMESPACE", lambda row: row[1].namespace),
    ]
