"""`yardctl apply`: inventories and jobs from files."""

from collections.abc import Sequence
from typing import Annotated

import typer

from client.cli.complaints import complain
from client.cli.files import Content, Document, read_documents, read_raw
from client.cli.options import FilesOption, NamespaceOption, ServerOption
from client.cli.session import REFUSED, Session, open_session
from client.cli.submit import NeverFits, in_namespace, submit_document
from client.cli.text import clean, note, out
from client.errors import ApiError, InputError
from client.shapes import Imported

PODYARD = "podyard"


def apply(
    ctx: typer.Context,
    *,
    files: FilesOption,
    format: Annotated[
        str, typer.Option(metavar="FORMAT", help="Format of inventories; others are sent as is.")
    ] = PODYARD,
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
    """Import inventories and submit jobs; a file may hold several documents."""
    session = open_session(ctx, server=server, namespace=namespace)
    if format != PODYARD:
        _apply_foreign(session, files, format, dry_run=dry_run, prune=prune)
        return
    documents = read_documents(files)
    _check(session, documents, is_pruning=prune)
    worst = 0
    for document in documents:
        try:
            _apply_one(session, document, dry_run=dry_run, prune=prune)
        except (ApiError, InputError) as error:
            worst = max(worst, complain(error, document.source if len(documents) > 1 else ""))
        except NeverFits:
            worst = max(worst, REFUSED)
    if worst:
        raise typer.Exit(worst)


def _check(session: Session, documents: Sequence[Document], *, is_pruning: bool) -> None:
    """Refuse what would go wrong half-way, before anything is sent."""
    inventories = [document for document in documents if document.content is Content.INVENTORY]
    if is_pruning and len(inventories) != 1:
        # Each import with prune removes what it does not name: the nodes of the others.
        raise typer.BadParameter(
            f"--prune needs one inventory that names every node; there are {len(inventories)}"
        )
    for document in documents:
        if document.content is Content.JOB:
            in_namespace(session, document)


def _apply_one(session: Session, document: Document, *, dry_run: bool, prune: bool) -> None:
    if document.content is Content.JOB:
        submit_document(session, document, is_dry=dry_run)
        return
    from client.http import json_body

    raw = document.raw
    imported = session.client.import_inventory(
        json_body(document.value) if raw is None else raw,
        dry_run=dry_run,
        prune=prune,
        content_type="application/json" if raw is None else "application/yaml",
    )
    cluster = document.value.get("cluster")
    _report(f"inventory/{cluster}" if cluster else "inventory", imported, dry_run=dry_run)


def _apply_foreign(
    session: Session, files: Sequence[str], format: str, *, dry_run: bool, prune: bool
) -> None:
    """Send files of another format as they are; only the service knows how to read them."""
    contents = list(read_raw(files))
    if prune and len(contents) != 1:
        raise typer.BadParameter(
            f"--prune needs one file that names every node; there are {len(contents)}"
        )
    for name, raw in contents:
        imported = session.client.import_inventory(
            raw, format=format, dry_run=dry_run, prune=prune, content_type="text/plain"
        )
        _report(name, imported, dry_run=dry_run)


def _report(what: str, imported: Imported, *, dry_run: bool) -> None:
    for warning in imported.get("warnings") or []:
        note(f"Warning: {clean(warning)}")
    counts = [f"{imported.get('created', 0)} created", f"{imported.get('updated', 0)} updated"]
    counts += [f"{imported.get('unchanged', 0)} unchanged", f"{imported.get('removed', 0)} removed"]
    if kept := imported.get("kept"):
        counts.append(f"{kept} kept for their pods")
    out(f"{clean(what)}: nodes {', '.join(counts)}{' (dry run)' if dry_run else ''}")
