"""`yardctl apply`: inventories, queues and jobs from files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from client.cli.complaints import complain
from client.cli.files import Content, Document, read_documents, read_raw
from client.cli.import_report import report
from client.cli.options import FilesOption, NamespaceOption, ServerOption
from client.cli.queue_files import apply_queues, check_queues
from client.cli.session import REFUSED, Session, open_session
from client.cli.submit import NeverFits, in_namespace, submit_document
from client.errors import ApiError, InputError

PODYARD = "podyard"


@dataclass(frozen=True, slots=True)
class How:
    """How inventories are imported.

    Attributes:
        format: None = ours where it looks so, else what the service guesses.
        options: What the files do not tell.
    """

    format: str | None
    options: Mapping[str, str]
    is_dry: bool
    is_pruning: bool


def apply(
    ctx: typer.Context,
    *,
    files: FilesOption,
    format: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT",
            help="Format of inventories: podyard, slurm, topograph, kubernetes, csv, "
            "ibnetdiscover, sharp, nccl, nvidia-smi; guessed without where that is safe.",
        ),
    ] = None,
    node_type: Annotated[
        str | None,
        typer.Option(metavar="TYPE", help="Type of nodes whose hardware the file does not tell."),
    ] = None,
    gpus: Annotated[int | None, typer.Option(metavar="N", help="GPUs of such a node.")] = None,
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="NAME=VALUE",
            help="Another option of the import, such as label_levels=rack:example.com/rack; may "
            "be given several times.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would happen; change nothing.")
    ] = False,
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Remove nodes that the inventory does not name."),
    ] = False,
    namespace: NamespaceOption = None,
    server: ServerOption = None,
) -> None:
    """Import inventories, make or change queues, submit jobs; a file may hold several documents.

    Queues go first, those above before those below. What a queue's document does not state takes
    its default.
    """
    session = open_session(ctx, server=server, namespace=namespace)
    how = How(format, _options(node_type, gpus, options or []), dry_run, prune)
    if format not in (None, PODYARD):
        documents = [Document(name, Content.FOREIGN, {}, raw) for name, raw in read_raw(files)]
    else:
        documents = read_documents(files, with_foreign=format is None)
    _check(session, documents, is_pruning=prune)
    worst = apply_queues(session, documents, is_dry=dry_run)
    for document in documents:
        if document.content is Content.QUEUE:
            continue
        try:
            _apply_one(session, document, how)
        except (ApiError, InputError) as error:
            worst = max(worst, complain(error, document.source if len(documents) > 1 else ""))
        except NeverFits:
            worst = max(worst, REFUSED)
    if worst:
        raise typer.Exit(worst)


def _options(node_type: str | None, gpus: int | None, others: Sequence[str]) -> dict[str, str]:
    """Options of the import by name.

    Raises:
        typer.BadParameter: If one is not `NAME=VALUE`.
    """
    found: dict[str, str] = {}
    for text in others:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise typer.BadParameter(f"'{text}' is not NAME=VALUE", param_hint="--option")
        found[name.strip()] = value.strip()
    if node_type is not None:
        found["node_type"] = node_type
    if gpus is not None:
        found["gpus"] = str(gpus)
    return found


def _check(session: Session, documents: Sequence[Document], *, is_pruning: bool) -> None:
    """Refuse what would go wrong half-way, before anything is sent."""
    check_queues(documents)
    others = (Content.JOB, Content.QUEUE)
    inventories = [document for document in documents if document.content not in others]
    if is_pruning and len(inventories) != 1:
        # Each import with prune removes what it does not name: the nodes of the others.
        raise typer.BadParameter(
            f"--prune needs one inventory that names every node; there are {len(inventories)}"
        )
    for document in documents:
        if document.content is Content.JOB:
            in_namespace(session, document)


def _apply_one(session: Session, document: Document, how: How) -> None:
    if document.content is Content.JOB:
        submit_document(session, document, is_dry=how.is_dry)
        return
    from client.calls import json_body

    is_foreign, raw = document.content is Content.FOREIGN, document.raw
    kind = "text/plain" if is_foreign else "application/yaml"
    imported = session.client.import_inventory(
        json_body(document.value) if raw is None else raw,
        format=how.format if is_foreign else PODYARD,
        dry_run=how.is_dry,
        prune=how.is_pruning,
        content_type="application/json" if raw is None else kind,
        options=how.options,
    )
    report(_name(document, imported.get("format")), imported, is_dry=how.is_dry)


def _name(document: Document, read_as: str | None) -> str:
    if document.content is Content.INVENTORY:
        cluster = document.value.get("cluster")
        return f"inventory/{cluster}" if cluster else "inventory"
    return f"{document.source} ({read_as})" if read_as else document.source
