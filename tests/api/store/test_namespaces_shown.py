"""Lists of those who are bound to namespaces: the same on both kinds of database."""

from api.auth.seen import sees_event
from api.store.claims import list_claims
from api.store.engine import Database
from api.store.events import list_events
from api.store.jobs import list_jobs
from api.store.objects import ObjectRow, put_object
from api.store.outbox import list_deliveries
from api.store.pods import list_pods
from api.store.queue_views import list_queues
from api.store.queues import create_queue
from api.store.usage import read_usage
from scheduler.model.queue import QueueRecord
from tests.api.store.build import NOW_S, bind, load_cluster, make_spec, submit

OURS = frozenset({"ours"})
NOBODY = frozenset[str]()


def two_tenants(database: Database) -> None:
    """A job of each in its place, a queue of each, and objects of theirs."""
    load_cluster(database)
    for number, namespace in enumerate(("ours", "theirs")):
        job = submit(database, make_spec("job", replicas=1, namespace=namespace))
        bind(database, job, [f"n00{number + 1}"])
        queue = QueueRecord(f"{namespace}-queue", namespaces=(namespace,))
        create_queue(database, queue, now_s=NOW_S)
        for resource, of, name in (
            ("configmaps", namespace, "map"),
            ("namespaces", "", namespace),
            ("queues.scheduling.volcano.sh", "", queue.name),
            ("nodes", "", f"n00{number + 1}"),
        ):
            row = ObjectRow(f"{resource}-{number}", resource, of, name, NOW_S)
            database.grouped(lambda tx, row=row: put_object(tx, row), NOW_S)  # type: ignore[misc]  # bound now


def test_lists_are_of_the_namespaces_alone(database: Database) -> None:
    two_tenants(database)
    for names, expected in ((OURS, {"ours"}), (NOBODY, set()), (None, {"ours", "theirs"})):
        jobs = list_jobs(database, namespaces=names).items
        pods = list_pods(database, namespaces=names).items
        used = read_usage(
            database, by="namespace", month="2027-01", now_s=NOW_S + 60, namespaces=names
        )
        assert {job.namespace for job in jobs} == expected
        assert {pod.namespace for pod in pods} == expected
        assert {row.owner for row in used.items} == expected
        assert list_claims(database, namespaces=names).items == ()
        assert list_deliveries(database, namespaces=names).items == ()


def test_pages_go_on_where_hidden_things_lie_between(database: Database) -> None:
    load_cluster(database)
    for number in range(6):
        submit(database, make_spec(f"j{number}", namespace="ours" if number % 2 else "theirs"))
    first = list_jobs(database, namespaces=OURS, limit=2)
    second = list_jobs(database, namespaces=OURS, limit=2, cursor=first.next)
    assert [job.name for job in (*first.items, *second.items)] == ["j1", "j3", "j5"]
    assert second.next is None


def test_events_of_the_database_are_those_that_are_told_one_by_one(database: Database) -> None:
    """The condition in SQL and the one in Python are the same."""
    two_tenants(database)
    every = list_events(database, 0).items
    assert any(event.subject_kind == "object" for event in every)
    for names in (OURS, NOBODY, frozenset({"theirs", "ours"})):
        shown = list_events(database, 0, namespaces=names).items
        assert shown == tuple(event for event in every if sees_event(names, event))
        assert shown != every


def test_queues_are_those_that_take_jobs_of_the_namespaces(database: Database) -> None:
    two_tenants(database)

    def found(names: frozenset[str] | None) -> list[str]:
        return [queue.name for queue in list_queues(database, names=names).items]

    assert found(OURS) == ["default", "ours-queue"]
    assert found(NOBODY) == ["default"]
    assert found(None) == ["default", "ours-queue", "theirs-queue"]
