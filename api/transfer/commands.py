"""`podyard export`, `import` and `restored`: the state of a service moves, or comes back."""

import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from api.settings import read_settings
from api.store.errors import StartupError

if TYPE_CHECKING:
    from api.store.engine import Database
    from api.store.export import Head
    from api.store.restore import Restored

DatabaseUrl = Annotated[
    str | None,
    typer.Option("--database-url", help="As of `podyard serve`."),
]
SkipRevisions = Annotated[
    int,
    typer.Option(
        help="Revisions to leave out, if the service ran on after the copy was made; "
        "who watched it then lists anew.",
        min=0,
        max=1 << 40,
    ),
]

SKIP = 1_000_000
"""A busy service gives so many revisions in some hours."""


def add_commands(app: typer.Typer) -> None:
    """Put these commands on the program."""
    app.command("export")(export_state)
    app.command("import")(import_state)
    app.command("restored")(note_restored)


def export_state(
    *,
    out: Annotated[Path, typer.Option(help="File to write; it replaces one of that name.")],
    database_url: DatabaseUrl = None,
) -> None:
    """Write the whole state to a file, of one moment, while the service may run on."""
    from api.store.export import read_state
    from api.store.schema import open_database
    from api.transfer.archive import write_archive

    try:
        with closing(open_database(_url(database_url))) as db, read_state(db) as (head, rows):
            _check_head(head.schema)
            count = write_archive(out, head, rows)
    except StartupError as error:
        _fail(error)
    typer.echo(
        f"wrote {count} rows to {out}: schema {head.schema}, revision {head.revision}; "
        "whoever reads it knows all there is in the database"
    )


def import_state(
    file: Annotated[Path, typer.Argument(help="As `podyard export` wrote it.")],
    *,
    database_url: DatabaseUrl = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="All that is in the database goes first.")
    ] = False,
    skip_revisions: SkipRevisions = 0,
) -> None:
    """Put the state of a file into an empty database, all of it or nothing; no service may run."""
    from api.store.restore import restore
    from api.transfer.archive import Archive

    try:
        with closing(Archive(file)) as archive:
            _check_schema(archive.head, file)
            # To the end before anything is touched, though it is read again and checked again.
            archive.check()
            with closing(_open(_url(database_url))) as db:
                made = restore(
                    db, archive.head, archive.rows(), replace=replace, skip=skip_revisions
                )
    except StartupError as error:
        _fail(error)
    typer.echo(f"took in {made.rows} rows; {_told(made)}")


def note_restored(
    *,
    database_url: DatabaseUrl = None,
    skip_revisions: SkipRevisions = SKIP,
    paused: Annotated[
        bool, typer.Option("--paused", help="Place nothing new until somebody says resume.")
    ] = False,
) -> None:
    """Say that a database was put back from an older copy; before a service is started on it."""
    from api.store.policy import get_policy, put_policy
    from api.store.restore import skip_ahead
    from api.store.schema import open_database

    try:
        with closing(open_database(_url(database_url))) as db:
            made = skip_ahead(db, skip=skip_revisions)
            if paused:
                put_policy(db, get_policy(db) | {"paused": True}, now_s=time.time())
    except StartupError as error:
        _fail(error)
    typer.echo(_told(made) + ("; the scheduler is paused" if paused else ""))


def _check_schema(head: "Head", file: Path) -> None:
    from api.store.export import columns_by_table
    from api.store.schema import known_versions
    from api.transfer.archive import ArchiveError

    known = known_versions()
    if head.schema not in known:
        raise ArchiveError(
            f"'{file}' has schema {head.schema}, this program knows those up to {known[-1]}; "
            "use a newer podyard"
        )
    if head.schema != known[-1]:
        raise ArchiveError(
            f"'{file}' has schema {head.schema}, this program's is {known[-1]}; import it with the "
            "podyard that wrote it, then run `podyard migrate` of this one"
        )
    if list(head.columns.items()) != list(columns_by_table().items()):
        raise ArchiveError(f"'{file}' has other tables than schema {head.schema}")


def _check_head(schema: str) -> None:
    """A service may use a database that a newer one has migrated; it does not know all of it.

    Raises:
        SchemaError: If it is one of those.
    """
    from api.store.errors import SchemaError
    from api.store.schema import known_versions

    if schema != known_versions()[-1]:
        raise SchemaError(
            f"the database has schema {schema}, this program's is {known_versions()[-1]}; "
            "use the podyard that migrated it"
        )


def _open(url: str) -> "Database":
    """The database at this program's schema; one without tables is given them."""
    from contextlib import ExitStack

    from api.store.export import schema_of
    from api.store.schema import Standing, migrate, open_database, standing_of

    if standing_of(url) is Standing.EMPTY:
        migrate(url)
    with ExitStack() as undo:
        opened = open_database(url)
        undo.callback(opened.close)
        _check_head(schema_of(opened))
        undo.pop_all()
    return opened


def _told(made: "Restored") -> str:
    resumes = "resume" if made.oldest < made.revision else "begin anew"
    return (
        f"{made.pods} live pods agree with the ledger of {made.nodes} nodes; "
        f"revision {made.revision}, watches {resumes}; epoch {made.epoch}"
    )


def _url(given: str | None) -> str:
    try:
        return read_settings({"database_url": given}).database_url
    except ValueError as error:
        _fail(error)


def _fail(error: Exception) -> NoReturn:
    typer.echo(f"podyard: {error}", err=True)
    raise typer.Exit(1)
