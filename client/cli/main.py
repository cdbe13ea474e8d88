"""The `yardctl` command: its options, its verbs, and the edge where errors become exit codes."""

import os
import sys
from io import TextIOWrapper
from typing import Annotated, cast

import typer
from typer.core import TyperGroup

from client.access import Access
from client.cli import (
    apply,
    breaker,
    context,
    control,
    delete,
    deliveries,
    describe,
    drain,
    events,
    explain,
    faults,
    get,
    live,
    logs,
    nodes,
    placement,
    queue,
    reserve,
    security,
    spares,
    submit,
    submitting,
    top,
    tree,
    usage,
    whatif,
)
from client.cli.complaints import complain
from client.cli.options import (
    AllNamespacesOption,
    CaFileOption,
    LabelsOption,
    NamespaceOption,
    OutputOption,
    ServerOption,
    TokenFileOption,
    TokenOption,
)
from client.cli.session import Globals
from client.cli.text import out
from client.errors import ClientError

BROKEN_PIPE = 128 + 13
INTERRUPTED = 128 + 2

EPILOG = (
    "Exit codes: 0 done, 1 refused or not found, 2 wrong call, 3 the service cannot be reached, "
    "4 waited in vain. A token is taken from PODYARD_TOKEN, PODYARD_TOKEN_FILE or the context; "
    "NO_COLOR switches colours off."
)


class Yardctl(TyperGroup):
    """The edge: every error that a command may meet ends in a line and an exit code."""

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]  # the same Context
        try:
            result = cast(object, super().invoke(ctx))
            sys.stdout.flush()
        except ClientError as error:
            _flush()
            raise typer.Exit(complain(error)) from error
        except BrokenPipeError:
            _drop_output()
            raise typer.Exit(BROKEN_PIPE) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        return result


def _flush() -> None:
    """Let rows that were written stand before the error that ended them."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()


def _drop_output() -> None:
    """Send the rest nowhere, so that the interpreter's own flush at the end is quiet."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = typer.Typer(
    cls=Yardctl,
    name="yardctl",
    help="Submit jobs to Podyard, see where they run and why they wait.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _options(
    ctx: typer.Context,
    *,
    server: ServerOption = None,
    namespace: NamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    output: OutputOption = None,
    labels: LabelsOption = None,
    token: TokenOption = None,
    token_file: TokenFileOption = None,
    ca_file: CaFileOption = None,
) -> None:
    if token and token_file:
        raise typer.BadParameter("give --token or --token-file, not both")
    access = Access(token or "", token_file or "", ca_file or "")
    ctx.obj = Globals(server, namespace, all_namespaces, output, labels, access)


app.command("apply")(apply.apply)
app.command("create")(submit.create)
app.command("submit")(submitting.submit)
app.command("get")(get.get)
app.command("describe")(describe.describe)
app.command("delete")(delete.delete)
app.command("placement")(placement.placement)
app.command("explain")(explain.explain)
app.command("tree")(tree.tree)
app.command("top")(top.top)
app.command("whatif")(whatif.whatif)
app.command("cordon")(nodes.cordon)
app.command("uncordon")(nodes.uncordon)
app.command("drain")(drain.drain)
app.command("undrain")(drain.undrain)
app.command("fence")(drain.fence)
app.add_typer(faults.app)
app.command("spares")(spares.spares)
app.command("breaker")(breaker.breaker)
app.command("events")(events.events)
app.command("watch")(live.watch)
app.command("logs")(logs.logs)
app.command("hold")(control.hold)
app.command("release")(control.release)
app.command("suspend")(control.suspend)
app.command("resume")(control.resume)
app.command("requeue")(control.requeue)
app.command("reserve")(reserve.reserve)
app.command("retry-delivery")(deliveries.retry_delivery)
app.add_typer(queue.app)
app.add_typer(context.app)
app.command("usage")(usage.usage)
app.command("whoami")(security.whoami)
app.command("audit")(security.audit)


@app.command()
def version(
    *, short: Annotated[bool, typer.Option("--short", help="The number alone.")] = False
) -> None:
    """Show the version of this program."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        number = installed("podyard")
    except PackageNotFoundError:
        number = "unknown"
    out(number if short else f"yardctl {number}")


def main() -> None:
    """Run the command line; ends the process with one of the documented exit codes."""
    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal's encoding lacks is no reason to fail.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="yardctl")


if __name__ == "__main__":
    main()
