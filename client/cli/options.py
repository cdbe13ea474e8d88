"""Options that several commands share, each written once."""

from typing import Annotated

import typer

from client.cli.output import Output

ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        "-s",
        metavar="URL",
        help="Address of the service; else PODYARD_SERVER, the context, http://127.0.0.1:8080.",
    ),
]
NamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAME",
        help="Namespace; else PODYARD_NAMESPACE, the context's, 'default'.",
    ),
]
AllNamespacesOption = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="Of all namespaces.")
]
OutputOption = Annotated[
    Output | None, typer.Option("--output", "-o", help="Format; a plain table without.")
]
LabelsOption = Annotated[
    str | None,
    typer.Option(
        "--selector",
        "-l",
        metavar="LABELS",
        help="Only nodes with these labels: key=value, key!=value, key, !key; comma = and.",
    ),
]
TokenOption = Annotated[
    str | None,
    typer.Option(metavar="TOKEN", help="Others on this machine can see it; better PODYARD_TOKEN."),
]
TokenFileOption = Annotated[
    str | None, typer.Option(metavar="FILE", help="File that holds a token; PODYARD_TOKEN_FILE.")
]
CaFileOption = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Authority of the service's certificate; PODYARD_CA_FILE."),
]
JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", help="NAME, or NAMESPACE/NAME.", show_default=False)
]
FilesOption = Annotated[
    list[str],
    typer.Option(
        "--filename",
        "-f",
        metavar="FILE",
        help="A file, a directory, or - for standard input; may be given several times.",
        show_default=False,
    ),
]
