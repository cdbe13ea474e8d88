"""`yardctl queue`: make, change and delete queues."""

from typing import Annotated

import typer

from client.cli.complaints import complain
from client.cli.options import OutputOption, ServerOption
from client.cli.output import Output
from client.cli.session import Session, open_session
from client.cli.submit import write_document
from client.cli.text import clean, out
from client.errors import ApiError
from client.shapes import Queue

NONE = "none"
"""Takes a limit, or the parent, away."""

app = typer.Typer(
    name="queue",
    help="Make, change and delete queues. See them with: yardctl get queues.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Of the queue.", show_default=False)
]
ParentOption = Annotated[
    str | None, typer.Option("--parent", metavar="NAME", help="The queue above; none = a root.")
]
QuotaOption = Annotated[
    str | None,
    typer.Option("--quota", metavar="GPUS", help="GPUs it may count on; none = not stated."),
]
LimitOption = Annotated[
    str | None, typer.Option("--limit", metavar="GPUS", help="GPUs it never exceeds; none = any.")
]
QuotaOfOption = Annotated[
    list[str] | None,
    typer.Option("--quota-of", metavar="MODEL=GPUS", help="The same of a GPU model; repeatable."),
]
LimitOfOption = Annotated[
    list[str] | None,
    typer.Option("--limit-of", metavar="MODEL=GPUS", help="The same of a GPU model; repeatable."),
]
WeightOption = Annotated[
    float | None, typer.Option("--weight", help="Its part of what is lent, against its siblings'.")
]
MaxPriorityOption = Annotated[
    str | None, typer.Option("--max-priority", metavar="N", help="Of its jobs; none = any.")
]
MaxPendingOption = Annotated[
    str | None,
    typer.Option("--max-pending", metavar="N", help="Jobs that may wait in it; none = any number."),
]
NamespacesOption = Annotated[
    str | None,
    typer.Option("--namespaces", metavar="A,B", help="That may use it; none = all."),
]
ClosedOption = Annotated[
    bool | None,
    typer.Option("--closed/--open", help="Closed: takes no jobs and starts none."),
]


@app.command("create")
def create(
    ctx: typer.Context,
    *,
    name: NameArgument,
    parent: ParentOption = None,
    quota: QuotaOption = None,
    limit: LimitOption = None,
    quota_of: QuotaOfOption = None,
    limit_of: LimitOfOption = None,
    weight: WeightOption = None,
    max_priority: MaxPriorityOption = None,
    max_pending: MaxPendingOption = None,
    namespaces: NamespacesOption = None,
    closed: ClosedOption = None,
    output: OutputOption = None,
    server: ServerOption = None,
) -> None:
    """Make a queue."""
    session = open_session(ctx, server=server, output=output)
    fields = _fields(
        parent=parent,
        quota=quota,
        limit=limit,
        quota_of=quota_of,
        limit_of=limit_of,
        max_priority=max_priority,
        max_pending=max_pending,
        weight=weight,
        namespaces=namespaces,
        closed=closed,
    )
    _tell(session, session.client.create_queue({"name": name} | fields), "created")


@app.command("set")
def change(
    ctx: typer.Context,
    *,
    name: NameArgument,
    parent: ParentOption = None,
    quota: QuotaOption = None,
    limit: LimitOption = None,
    quota_of: QuotaOfOption = None,
    limit_of: LimitOfOption = None,
    weight: WeightOption = None,
    max_priority: MaxPriorityOption = None,
    max_pending: MaxPendingOption = None,
    namespaces: NamespacesOption = None,
    closed: ClosedOption = None,
    output: OutputOption = None,
    server: ServerOption = None,
) -> None:
    """Change what is given; the rest stays. --quota-of and --limit-of replace all of their kind."""
    session = open_session(ctx, server=server, output=output)
    fields = _fields(
        parent=parent,
        quota=quota,
        limit=limit,
        quota_of=quota_of,
        limit_of=limit_of,
        max_priority=max_priority,
        max_pending=max_pending,
        weight=weight,
        namespaces=namespaces,
        closed=closed,
    )
    if not fields:
        raise typer.BadParameter("say what to change; see yardctl queue set --help")
    _tell(session, session.client.change_queue(name, fields), "changed")


@app.command("delete")
def delete(
    ctx: typer.Context,
    *,
    names: Annotated[
        list[str], typer.Argument(metavar="NAME", help="Of queues.", show_default=False)
    ],
    server: ServerOption = None,
) -> None:
    """Delete queues that have no jobs and no queues below them."""
    session = open_session(ctx, server=server)
    worst = 0
    for name in names:
        try:
            session.client.delete_queue(name)
        except ApiError as error:
            worst = max(worst, complain(error))
        else:
            out(clean(f"queue/{name} deleted"))
    if worst:
        raise typer.Exit(worst)


def _fields(
    *,
    parent: str | None,
    quota: str | None,
    limit: str | None,
    quota_of: list[str] | None,
    limit_of: list[str] | None,
    max_priority: str | None,
    max_pending: str | None,
    weight: float | None,
    namespaces: str | None,
    closed: bool | None,
) -> dict[str, object]:
    """The fields of a request that options stand for."""
    numbers = {
        "quota_gpus": quota,
        "limit_gpus": limit,
        "max_priority": max_priority,
        "max_pending": max_pending,
    }
    models = {"quota_by_model": quota_of, "limit_by_model": limit_of}
    fields: dict[str, object] = {}
    if parent is not None:
        fields["parent"] = None if parent == NONE else parent
    for field, text in numbers.items():
        if text is not None:
            fields[field] = None if text == NONE else _number(text, _option(field))
    for field, pairs in models.items():
        if pairs is not None:
            fields[field] = _by_model(pairs, field.replace("_by_model", "-of"))
    if weight is not None:
        fields["weight"] = weight
    if namespaces is not None:
        names = [] if namespaces == NONE else [name.strip() for name in namespaces.split(",")]
        fields["namespaces"] = names
    if closed is not None:
        fields["closed"] = closed
    return fields


def _option(field: str) -> str:
    return field.removesuffix("_gpus").replace("_", "-")


def _by_model(pairs: list[str], option: str) -> dict[str, int]:
    if pairs == [NONE]:
        return {}
    found: dict[str, int] = {}
    for pair in pairs:
        model, equals, text = pair.rpartition("=")
        if not (equals and model):
            raise typer.BadParameter(f"--{option}: '{pair}' is not MODEL=GPUS, nor {NONE}")
        found[model] = _number(text, option)
    return found


def _number(text: str, option: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"--{option}: '{text}' is no whole number, nor {NONE}") from None


def _tell(session: Session, queue: Queue, done: str) -> None:
    if session.data_output is not None:
        write_document(session, queue)
    else:
        said = "" if session.output is Output.NAME else f" {done}"
        out(clean(f"queue/{queue.get('name')}{said}"))
