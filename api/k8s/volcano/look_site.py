"""The cluster as the rules of Volcano's objects look at it, read from the store."""

from api.auth.seen import Names, sees_queue
from api.k8s.volcano.queue_shape import QUEUES, shown_spec
from api.k8s.volcano.site import ROOT, QueueSeen, Site
from api.store.engine import Database
from api.store.look import Look, look_at
from api.store.queue_counts import QueueCount, count_queues
from api.store.queue_rows import read_queues

NAMESPACES = "namespaces"
QUEUE_OF_NAMESPACE = "scheduling.volcano.sh/queue-name"


def read_site(database: Database, names: Names = None, *, with_counts: bool = False) -> Site:
    """The cluster of this moment."""
    with look_at(database) as look:
        return site_of(look, names=names, with_counts=with_counts)


def site_of(look: Look, *, names: Names = None, with_counts: bool = False) -> Site:
    """The cluster of a snapshot.

    Args:
        names: Namespaces of whose queues it is spoken; None = all.
        with_counts: Count what is in the queues, as rules about queues ask; jobs do not.
    """
    counts = count_queues(look.connection) if with_counts else {}
    rows = {row.name: row for row in look.objects(QUEUES)}
    found = {ROOT: QueueSeen(ROOT)}
    there = read_queues(look.connection)
    for name, record in there.items():
        if not sees_queue(names, name, there):
            continue
        row, count = rows.get(name), counts.get(name, QueueCount())
        found[name] = QueueSeen(
            name=name,
            parent=record.parent or "",
            state=state_of(closed=record.closed, live=count.live),
            spec=shown_spec(record, row),
            annotations=row.annotations if row is not None else {},
            allocated_pods=count.pods,
        )
    queues = {
        row.name: row.annotations[QUEUE_OF_NAMESPACE]
        for row in look.objects(NAMESPACES)
        if QUEUE_OF_NAMESPACE in row.annotations and (names is None or row.name in names)
    }
    return Site(found, queues)


def state_of(*, closed: bool, live: int) -> str:
    """A queue that was closed is closing as long as jobs are in it."""
    if not closed:
        return "Open"
    return "Closing" if live else "Closed"
