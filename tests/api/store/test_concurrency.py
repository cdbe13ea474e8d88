"""Many writers and readers at once: revisions in order, nothing lost, nothing twice."""

import threading
from contextlib import closing

import pytest

from api.store.engine import Database
from api.store.errors import Conflict
from api.store.events import current_revision, list_events, wait_for_revision
from api.store.jobs import list_jobs, submit_job
from api.store.schema import open_database
from api.store.views import IdempotencyKey
from tests.api.store.build import NOW_S, make_spec

WRITERS, EACH = 8, 25


def run_all(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def watch(database: Database, until: int, seen: list[int]) -> None:
    since = 0
    while since < until:
        wait_for_revision(database, since, 10.0)
        for event in list_events(database, since, 50).items:
            seen.append(event.revision)
            since = event.revision


@pytest.mark.parametrize("processes", [1, 2])
def test_readers_see_every_revision_once_and_in_order(
    database: Database, database_url: str, processes: int
) -> None:
    """Writers of two pools stand for two processes: nothing but the database is shared."""
    total = WRITERS * EACH
    with closing(open_database(database_url)) as second:
        pools = [database, second][:processes]

        def write(writer: int) -> None:
            for number in range(EACH):
                spec = make_spec(f"w{writer}-{number}")
                submit_job(pools[writer % processes], spec, {}, now_s=NOW_S)

        seen: list[list[int]] = [[] for _ in range(3)]
        watchers = [
            threading.Thread(target=watch, args=(pools[i % processes], total, seen[i]))
            for i in range(3)
        ]
        writers = [threading.Thread(target=write, args=(w,)) for w in range(WRITERS)]
        run_all([*watchers, *writers])
    assert current_revision(database) == total
    assert seen == [list(range(1, total + 1))] * 3
    jobs = list_jobs(database, limit=10_000).items
    assert [job.age for job in jobs] == list(range(1, total + 1))
    assert len({job.uid for job in jobs}) == total


def test_one_of_many_that_ask_for_a_name_at_once_gets_it(
    database: Database, database_url: str
) -> None:
    outcomes: list[str] = []
    with closing(open_database(database_url)) as second:

        def ask(pool: Database) -> None:
            try:
                submit_job(pool, make_spec("same"), {}, now_s=NOW_S)
                outcomes.append("created")
            except Conflict:
                outcomes.append("refused")

        pools = [database, second] * 6
        run_all([threading.Thread(target=ask, args=(pool,)) for pool in pools])
    assert sorted(outcomes) == ["created"] + ["refused"] * 11


def test_many_requests_under_one_key_make_one_job(database: Database, database_url: str) -> None:
    key = IdempotencyKey("", "default", "k", "h")
    found: list[tuple[str, bool]] = []
    with closing(open_database(database_url)) as second:

        def ask(pool: Database) -> None:
            view, made = submit_job(pool, make_spec("a"), {}, now_s=NOW_S, idempotency=key)
            found.append((view.uid, made))

        pools = [database, second] * 6
        run_all([threading.Thread(target=ask, args=(pool,)) for pool in pools])
    assert len({uid for uid, _ in found}) == 1
    assert sorted(made for _, made in found) == [False] * 11 + [True]
