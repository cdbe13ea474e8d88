"""One snapshot of the database, and what the Kubernetes face reads of it: all of one moment."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection

from api.store.bulk import among, within
from api.store.engine import Database, read_revision
from api.store.events import check_kept, read_events
from api.store.job_rows import job_view, select_jobs
from api.store.nodes import read_nodes
from api.store.objects import ObjectRow, list_objects
from api.store.pods import pod_view, select_pods
from api.store.rows import AnyRow
from api.store.tables import events, jobs, nodes, pods
from api.store.topology import read_topology
from api.store.views import EventView, JobView, NodeView, PodView
from scheduler.model.lifecycle import JobState
from scheduler.topology.tree import Topology


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod that has had a place.

    Attributes:
        at: When it got its present one.
        evicted_at: When its gang was told to leave last.
    """

    view: PodView
    at: float
    evicted_at: float | None
    job_state: JobState


class Look:
    """What there is at one revision.

    Attributes:
        connection: For reads of other modules of the store that take one.
        revision: Of the store.
    """

    def __init__(self, database: Database, connection: Connection) -> None:
        self.database = database
        self.connection = connection
        self.revision = read_revision(connection)

    def topology(self) -> Topology:
        return read_topology(self.database, self.connection).topology

    def jobs(
        self,
        *,
        namespace: str | None = None,
        name: str | None = None,
        uids: Collection[str] | None = None,
        names: Collection[tuple[str, str]] | None = None,
        after: tuple[str, str] | None = None,
        limit: int | None = None,
    ) -> list[JobView]:
        """The newest job of each name, in order of (namespace, name).

        Args:
            uids: Only those, if they are the newest of their name.
            names: Only of these (namespace, name).
        """
        here = [_code_point(self.connection, c) for c in (jobs.c.namespace, jobs.c.name)]
        wanted: list[ColumnElement[bool]] = [~_newer()]
        if namespace is not None:
            wanted.append(jobs.c.namespace == namespace)
        if name is not None:
            wanted.append(jobs.c.name == name)
        if uids is not None:
            wanted.append(among(self.connection, jobs.c.uid, uids))
        if names is not None:
            wanted.append(_among_pairs(self.connection, names))
        if after is not None:
            wanted.append(sa.tuple_(*here) > sa.tuple_(*map(sa.literal, after)))
        query = select_jobs().where(*wanted).order_by(*here).limit(limit)
        return [job_view(row) for row in self.connection.execute(query)]

    def pods(
        self,
        *,
        namespace: str | None = None,
        job_uids: Collection[str] | None = None,
        node: str | None = None,
        name: str | None = None,
    ) -> list[PodView]:
        """Pods of jobs whose record is there, by job age, role order and index."""
        wanted: list[ColumnElement[bool]] = []
        for column, value in (
            (pods.c.namespace, namespace),
            (pods.c.node, node),
            (pods.c.name, name),
        ):
            if value is not None:
                wanted.append(column == value)
        if job_uids is not None:
            wanted.append(among(self.connection, pods.c.job_uid, job_uids))
        order = (jobs.c.age, pods.c.role_index, pods.c.pod_index)
        query = select_pods().where(*wanted).order_by(*order)
        return [pod_view(row) for row in self.connection.execute(query)]

    def placed_pods(
        self,
        *,
        namespace: str | None = None,
        job_uids: Collection[str] | None = None,
        node: str | None = None,
        name: str | None = None,
        after: tuple[str, str] | None = None,
        limit: int | None = None,
    ) -> list[PlacedPod]:
        """Pods of the newest job of each name, in order of (namespace, name).

        Args:
            after: Only behind this (namespace, name).
        """
        here = [_code_point(self.connection, c) for c in (pods.c.namespace, pods.c.name)]
        wanted: list[ColumnElement[bool]] = [~_newer()]
        for column, value in (
            (pods.c.namespace, namespace),
            (pods.c.node, node),
            (pods.c.name, name),
        ):
            if value is not None:
                wanted.append(column == value)
        if job_uids is not None:
            wanted.append(among(self.connection, pods.c.job_uid, job_uids))
        if after is not None:
            wanted.append(sa.tuple_(*here) > sa.tuple_(*map(sa.literal, after)))
        columns = (jobs.c.submitted_at, jobs.c.evicted_at, jobs.c.state.label("job_state"))
        query = select_pods().add_columns(*columns).where(*wanted).order_by(*here).limit(limit)
        return [_placed(row) for row in self.connection.execute(query)]

    def node_names(self, after: str, limit: int) -> list[str]:
        """Names of nodes behind a name, in order."""
        query = sa.select(nodes.c.name).where(nodes.c.name > after).order_by(nodes.c.name)
        return list(self.connection.execute(query.limit(limit)).scalars())

    def nodes(self, names: Collection[str] | None = None) -> list[NodeView]:
        """Nodes by name; of these names alone if they are given."""
        return read_nodes(self.database, self.connection, names)

    def objects(
        self,
        resource: str,
        *,
        namespace: str | None = None,
        name: str | None = None,
        job_uids: Collection[str] | None = None,
        uids: Collection[str] | None = None,
        after: tuple[str, str] | None = None,
        limit: int | None = None,
    ) -> list[ObjectRow]:
        """Rows of `objects`; see `list_objects`."""
        return list_objects(
            self.connection,
            resource,
            namespace=namespace,
            name=name,
            job_uids=job_uids,
            uids=uids,
            after=after,
            limit=limit,
        )

    def events(self, since: int, limit: int, *, until: int | None = None) -> list[EventView]:
        """Events after a revision and up to another, oldest first. Raises Gone, FutureRevision."""
        check_kept(self.connection, since)
        last = self.revision if until is None else until
        wanted = [events.c.revision > since, events.c.revision <= last]
        return read_events(self.connection, wanted, limit)

    def events_at(self, revisions: Collection[int]) -> list[EventView]:
        """The events that have these revisions, as far as they are kept."""
        wanted = among(self.connection, events.c.revision, revisions)
        return read_events(self.connection, [wanted], len(revisions))

    def last_events(
        self,
        limit: int,
        *,
        subject_kinds: Collection[str],
        name: str | None = None,
        namespaces: Collection[str] | None = None,
    ) -> list[EventView]:
        """The newest events about these kinds of subjects, or one of that name, oldest first.

        Args:
            namespaces: Only of these, "" = those of what has none.
        """
        wanted: list[ColumnElement[bool]] = [events.c.subject_kind.in_(sorted(subject_kinds))]
        wanted += within(self.connection, events.c.namespace, namespaces)
        if name is not None:
            wanted.append(events.c.name == name)
        return read_events(self.connection, wanted, limit, newest=True)


@contextmanager
def look_at(database: Database) -> Iterator[Look]:
    """A snapshot for any number of reads."""
    with database.read() as connection:
        yield Look(database, connection)


def _placed(row: AnyRow) -> PlacedPod:
    r = row._mapping
    at = r["bound_at"] or r["submitted_at"]
    return PlacedPod(pod_view(row), at, r["evicted_at"], JobState(r["job_state"]))


def _newer() -> ColumnElement[bool]:
    """Whether there is a newer job of the name of the one that is selected."""
    other = jobs.alias()
    return sa.exists().where(
        other.c.namespace == jobs.c.namespace,
        other.c.name == jobs.c.name,
        other.c.age > jobs.c.age,
    )


def _code_point(connection: Connection, column: ColumnElement[str]) -> ColumnElement[str]:
    """Sorted alike on both databases, and as Python does."""
    return column if connection.dialect.name == "sqlite" else sa.collate(column, "C")


def _among_pairs(connection: Connection, names: Collection[tuple[str, str]]) -> ColumnElement[bool]:
    by_namespace: dict[str, list[str]] = {}
    for namespace, name in names:
        by_namespace.setdefault(namespace, []).append(name)
    return sa.or_(
        sa.false(),
        *(
            sa.and_(jobs.c.namespace == namespace, among(connection, jobs.c.name, found))
            for namespace, found in sorted(by_namespace.items())
        ),
    )
