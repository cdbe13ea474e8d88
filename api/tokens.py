"""`podyard token`: makes, lists, revokes and replaces tokens, on the database itself.

No service is needed, so that the first one can be made before any is served; one that runs hears of
it within seconds.
"""

import os
import re
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from api.auth import Caller, Role
from api.settings import read_settings
from api.store.errors import Conflict, NotFound, StartupError
from scheduler.errors import InventoryError
from scheduler.importers.hostlist import expand

if TYPE_CHECKING:
    from api.auth.tokens import NewToken
    from api.store.engine import Database
    from api.store.tokens import Token

DAY_S = 86_400.0
NODES_MAX = 10_000

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_TIME = re.compile(r"(\d{1,6})(s|m|h|d|w|y)")
_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": DAY_S, "w": 7 * DAY_S, "y": 365 * DAY_S}

app = typer.Typer(
    name="token",
    help="Who may call the service; see docs/security.md.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

DatabaseUrl = Annotated[str | None, typer.Option("--database-url", help="As of `podyard serve`.")]
TokenName = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]
Out = Annotated[
    Path | None, typer.Option(help="File that gets the token, for its owner alone; not shown then.")
]
Expires = Annotated[
    str, typer.Option(help="How long it is good, as in 12h, 90d, 1y; `never`.", metavar="TIME")
]


@app.command()
def create(
    *,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", show_default=False, help="Default: its role or node."),
    ] = None,
    role: Annotated[Role, typer.Option(help="What its holder is.")],
    namespace: Annotated[
        list[str] | None,
        typer.Option("--namespace", "-n", help="Bound to it; may be given again. Default: all."),
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(help="Of an agent: NODE or n[001-004]; may be given again."),
    ] = None,
    all_nodes: Annotated[
        bool, typer.Option("--all-nodes", help="An agent that may speak for any node.")
    ] = False,
    expires: Expires = "365d",
    out: Out = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Make a token and show it, this once; only its digest is kept."""
    from api.store.tokens import add_token

    nodes = _nodes(role, node or (), all_nodes=all_nodes)
    namespaces = _namespaces(role, namespace)
    chosen = name or _default_name(role, nodes)
    if _NAME.fullmatch(chosen) is None:
        _fail(f"NAME: found '{chosen[:80]}'; give 1 to 63 letters, digits, '-', '_', '.'")
    with closing(_open(database_url)) as db:
        now_s = _now_s(db)
        caller = Caller(chosen, role, namespaces, nodes)
        try:
            made = add_token(db, caller, now_s=now_s, expires_at=_end_s(expires, now_s))
        except Conflict as error:
            _fail(error.message)
    _hand_over(made, chosen, out)


@app.command("list")
def list_all(database_url: DatabaseUrl = None) -> None:
    """Show all tokens: whose they are, what for, and whether they are good."""
    from api.store.tokens import list_tokens

    with closing(_open(database_url)) as db:
        now_s = _now_s(db)
        rows: list[tuple[str, ...]] = [
            ("NAME", "ID", "ROLE", "BOUND TO", "MADE", "ENDS", "USED", "STATE")
        ]
        rows += [_row(token, now_s) for token in list_tokens(db)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())


@app.command()
def revoke(name: TokenName, database_url: DatabaseUrl = None) -> None:
    """Make all tokens of a name useless, or the one of an id; within 5 seconds, everywhere."""
    from api.store.tokens import revoke as end

    with closing(_open(database_url)) as db:
        try:
            ids = end(db, name, now_s=_now_s(db))
        except NotFound:
            _fail(f"no token '{name}' is left to revoke; see: podyard token list")
    typer.echo(f"revoked {', '.join(ids)}; running services refuse it within 5 seconds")


@app.command()
def rotate(
    name: TokenName,
    *,
    overlap: Annotated[
        str, typer.Option(help="How long the old one stays good.", metavar="TIME")
    ] = "24h",
    expires: Expires = "365d",
    out: Out = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Make a new token of the same name, role and bounds; the old one ends after the overlap."""
    from api.store.tokens import rotate as replace

    overlap_s = 0.0 if overlap == "0" else _seconds(overlap, "--overlap")
    with closing(_open(database_url)) as db:
        now_s = _now_s(db)
        try:
            made = replace(
                db, name, now_s=now_s, overlap_s=overlap_s, expires_at=_end_s(expires, now_s)
            )
        except NotFound:
            _fail(f"there is no good token '{name}'; see: podyard token list")
    _hand_over(made, name, out)


def _hand_over(made: "NewToken", name: str, out: Path | None) -> None:
    if out is None:
        typer.echo(f"token '{name}', id {made.id}; it is not shown again:", err=True)
        typer.echo(made.text)
        return
    # Made for its owner alone from the start: nobody can have opened it before.
    written = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        handle = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(made.text + "\n")
        written.replace(out)
    except OSError as error:
        _fail(
            f"--out {out}: {error.strerror}; the token was made all the same, "
            f"take it back with: podyard token revoke {made.id}"
        )
    typer.echo(f"token '{name}', id {made.id}, is in {out}")


def _nodes(role: Role, given: Sequence[str], *, all_nodes: bool) -> frozenset[str] | None:
    if role is not Role.AGENT:
        if given or all_nodes:
            _fail(f"--node is for the role agent; found {role}")
        return None
    if all_nodes and given:
        _fail("give --node or --all-nodes, not both")
    if all_nodes:
        return None
    if not given:
        _fail("an agent speaks for --node NODE, or for --all-nodes")
    try:
        found = frozenset(name for text in given for name in expand(text, limit=NODES_MAX))
    except InventoryError as error:
        _fail(f"--node: {error}")
    if len(found) > NODES_MAX:
        _fail(f"--node: found {len(found)} nodes; at most {NODES_MAX} are allowed")
    return found


def _namespaces(role: Role, given: Sequence[str] | None) -> frozenset[str] | None:
    if not given:
        return None
    if role in {Role.ADMIN, Role.AGENT}:
        _fail(f"--namespace: found role {role}, which is bound to none")
    for name in given:
        if _NAME.fullmatch(name) is None:
            _fail(f"--namespace: found '{name[:80]}'; that is no name of a namespace")
    return frozenset(given)


def _default_name(role: Role, nodes: frozenset[str] | None) -> str:
    return next(iter(nodes))[:63] if nodes is not None and len(nodes) == 1 else role.value


def _row(token: "Token", now_s: float) -> tuple[str, ...]:
    caller = token.caller
    state = "good" if token.is_good(now_s) else "over" if token.revoked_at is None else "revoked"
    return (
        caller.name,
        token.id,
        caller.role.value,
        _bound("namespace", caller.namespaces) or _bound("node", caller.nodes) or "-",
        _day(token.created_at),
        _day(token.expires_at, "never"),
        _hour(token.used_at),
        state,
    )


def _bound(noun: str, names: frozenset[str] | None) -> str:
    if names is None:
        return ""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{noun} {','.join(sorted(names)[:3])}{more}"


def _day(at_s: float | None, otherwise: str = "-") -> str:
    return otherwise if at_s is None else f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d}"


def _hour(at_s: float | None) -> str:
    return "-" if at_s is None else f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%MZ}"


def _end_s(expires: str, now_s: float) -> float | None:
    return None if expires == "never" else now_s + _seconds(expires, "--expires")


def _seconds(text: str, option: str) -> float:
    found = _TIME.fullmatch(text)
    if found is None or int(found[1]) == 0:
        _fail(f"{option}: found '{text[:80]}'; give a number and s, m, h, d, w or y, as in 90d")
    return int(found[1]) * _UNITS_S[found[2]]


def _open(database_url: str | None) -> "Database":
    from api.store.schema import Standing, migrate, open_database, standing_of

    try:
        url = read_settings({"database_url": database_url}).database_url
        # As `serve` does it: a fresh file becomes a database, one on a server is asked about.
        if url.startswith("sqlite") and standing_of(url) is Standing.EMPTY:
            migrate(url)
        return open_database(url)
    except (StartupError, ValueError) as error:
        _fail(str(error))


def _now_s(db: "Database") -> float:
    from api.store.clock_row import load_clock

    stood_at = load_clock(db)  # of a service in a test, whose time is its own
    return time.time() if stood_at is None else stood_at


def _fail(message: str) -> NoReturn:
    typer.echo(f"podyard: {message}", err=True)
    raise typer.Exit(1)
