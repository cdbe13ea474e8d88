"""Maintenance windows: nodes that people keep for themselves for a time.

A window is a fact. The leader turns it into claims in its next cycle and ends those when it is over
or withdrawn.
"""

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.claims import NOT_GONE
from api.store.engine import Database, Transaction, read_revision
from api.store.errors import Conflict, NotFound
from api.store.jsontext import dump_json, load_list
from api.store.paging import clamp, encode_cursor, page_of, str_cursor
from api.store.rows import AnyRow
from api.store.tables import claims, windows
from api.store.topology import read_topology
from api.store.views import Page
from scheduler.errors import Problem, SchedulerError
from scheduler.model.claim import Window
from scheduler.model.ids import NodeId

DELETED, ENDED = "reservation.deleted", "reservation.ended"
WINDOWS_GONE = (DELETED, ENDED)
"""Events of windows whose row is not there any more."""

NODES_SHOWN = 32
"""Names of nodes in an event."""


@dataclass(frozen=True, slots=True)
class WindowView:
    """A window as it stands.

    Attributes:
        claimed: Nodes that are kept for it already.
    """

    window: Window
    claimed: int
    revision: int


def create_window(db: Database, window: Window, *, now_s: float) -> WindowView:
    """Write a window down; durable when this returns.

    Raises:
        Conflict: If the name is in use, or another window has one of its nodes at that time.
        SchedulerError: If it has no nodes or unknown ones, ends before it starts, or is in the
            past.
    """

    def work(tx: Transaction) -> WindowView:
        _check(db, tx.connection, window, now_s)
        revision = _emit(tx, "reservation.created", window)
        tx.connection.execute(sa.insert(windows), _row(window) | {"revision": revision})
        return WindowView(window, 0, revision)

    return db.grouped(work, now_s)


def get_window(db: Database, name: str) -> WindowView:
    """A window by its name.

    Raises:
        NotFound: If there is none.
    """
    with db.read() as connection:
        return _view(_get(connection, name), _claimed(connection))


def list_windows(db: Database, *, limit: int = 500, cursor: str | None = None) -> Page[WindowView]:
    """Windows by name.

    Raises:
        BadCursor: If the cursor was not given by such a list.
    """
    size = clamp(limit)
    query = sa.select(windows).order_by(windows.c.name).limit(size + 1)
    if cursor is not None:
        query = query.where(windows.c.name > str_cursor(cursor))
    with db.read() as connection:
        revision = read_revision(connection)
        rows = connection.execute(query).all()
        claimed = _claimed(connection)
    return page_of(
        rows,
        size,
        revision=revision,
        view=lambda row: _view(row, claimed),
        cursor_of=lambda row: encode_cursor(row._mapping["name"]),
    )


def delete_window(db: Database, name: str, *, now_s: float) -> None:
    """Withdraw a window; its nodes are free again after the next cycle.

    Raises:
        NotFound: If there is none.
    """

    def work(tx: Transaction) -> None:
        window = window_of(_get(tx.connection, name))
        _emit(tx, DELETED, window)
        tx.connection.execute(sa.delete(windows).where(windows.c.name == name))

    db.grouped(work, now_s)


def end_windows(db: Database, *, now_s: float) -> int:
    """Forget windows that are over and of which nothing is claimed any more; how many."""
    claimed = sa.exists().where(claims.c.window_name == windows.c.name, NOT_GONE)
    over = sa.select(windows).where(windows.c.ends_at <= now_s, sa.not_(claimed))
    with db.read() as connection:
        if connection.execute(over.limit(1)).first() is None:
            return 0

    def work(tx: Transaction) -> int:
        found = [window_of(row) for row in tx.connection.execute(over)]
        for window in found:
            _emit(tx, ENDED, window)
            tx.connection.execute(sa.delete(windows).where(windows.c.name == window.name))
        return len(found)

    return db.grouped(work, now_s)


def read_windows(connection: Connection) -> list[Window]:
    """All windows, by name."""
    rows = connection.execute(sa.select(windows).order_by(windows.c.name))
    return [window_of(row) for row in rows]


def window_of(row: AnyRow) -> Window:
    """A row of the table as a value."""
    r = row._mapping
    return Window(
        name=r["name"],
        nodes=tuple(NodeId(str(name)) for name in load_list(r["nodes"])),
        starts_s=r["starts_at"],
        ends_s=r["ends_at"],
        why=r["why"],
    )


def _check(db: Database, connection: Connection, window: Window, now_s: float) -> None:
    problems: list[Problem] = []
    known = read_topology(db, connection).topology.node_index
    if not window.nodes:
        problems.append(Problem("nodes", "is empty; a reservation is for at least one node"))
    unknown = [name for name in window.nodes if name not in known]
    problems += [Problem("nodes", f"node '{name[:80]}' does not exist") for name in unknown]
    if window.ends_s <= window.starts_s:
        problems.append(Problem("ends_at", "must be later than starts_at"))
    elif window.starts_s < now_s:
        problems.append(Problem("starts_at", "is in the past; leave it out to start now"))
    if problems:
        raise SchedulerError(problems)
    for other in read_windows(connection):
        # One that is over is there only until the leader has ended its claims.
        if other.name == window.name:
            raise Conflict("name", f"reservation '{window.name}' exists; choose another name")
        _check_apart(window, other)


def _check_apart(window: Window, other: Window) -> None:
    if window.starts_s >= other.ends_s or other.starts_s >= window.ends_s:
        return
    theirs = set(other.nodes)
    shared = [name for name in window.nodes if name in theirs]
    if shared:
        more = f" and {len(shared) - 1} more nodes" if len(shared) > 1 else ""
        raise Conflict(
            "nodes",
            f"node '{shared[0]}'{more} is reserved by '{other.name}' at that time; a node has one "
            "reservation at a time",
        )


def _get(connection: Connection, name: str) -> AnyRow:
    row = connection.execute(sa.select(windows).where(windows.c.name == name)).one_or_none()
    if row is None:
        raise NotFound("reservation", name)
    return row


def _claimed(connection: Connection) -> dict[str, int]:
    """Claims by window, those without any left out."""
    query = (
        sa.select(claims.c.window_name, sa.func.count())
        .where(claims.c.window_name != "", NOT_GONE)
        .group_by(claims.c.window_name)
    )
    return dict(connection.execute(query).all())


def _view(row: AnyRow, claimed: dict[str, int]) -> WindowView:
    return WindowView(window_of(row), claimed.get(row.name, 0), row.revision)


def _row(window: Window) -> dict[str, object]:
    return {
        "name": window.name,
        "nodes": dump_json(list(window.nodes)),
        "starts_at": window.starts_s,
        "ends_at": window.ends_s,
        "why": window.why,
    }


def _emit(tx: Transaction, kind: str, window: Window) -> int:
    return tx.emit(
        kind,
        subject_kind="reservation",
        name=window.name,
        uid=window.name,
        message=f"{len(window.nodes)} nodes" + (f": {window.why}" if window.why else ""),
        body={
            "nodes": list(window.nodes[:NODES_SHOWN]),
            "node_count": len(window.nodes),
            "starts_s": window.starts_s,
            "ends_s": window.ends_s,
        },
    )
