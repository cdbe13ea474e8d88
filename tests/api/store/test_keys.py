"""A caller's key is one job: for a day, over restarts, and however many ask at once."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from api.store.batch import run_batch, submit_together
from api.store.ending import End
from api.store.engine import Database
from api.store.errors import Conflict
from api.store.events import IDEMPOTENCY_S, current_revision, trim_history
from api.store.jobs import cancel_job, job_of_key, list_jobs, submit_job
from api.store.schema import open_database
from api.store.views import IdempotencyKey, JobView, Submission
from tests.api.store.build import NOW_S, make_spec


def key(
    body: str = "hash", *, name: str = "k", caller: str = "", namespace: str = "default"
) -> IdempotencyKey:
    return IdempotencyKey(caller, namespace, name, body)


def send(
    database: Database, name: str, used: IdempotencyKey, at_s: float = NOW_S
) -> tuple[JobView, bool]:
    return submit_job(database, make_spec(name), {}, now_s=at_s, idempotency=used)


def test_key_is_one_job_after_a_restart(database_url: str) -> None:
    with closing(open_database(database_url)) as database:
        first, _ = send(database, "a", key())
    with closing(open_database(database_url)) as database:
        assert send(database, "a", key()) == (first, False)
        with pytest.raises(Conflict, match="another body"):
            send(database, "a", key("other"))


def test_many_at_once_under_one_key_make_one_job(database: Database) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: send(database, "a", key()), range(16)))
    assert Counter(created for _, created in found) == {True: 1, False: 15}
    assert len({job.uid for job, _ in found}) == 1
    assert current_revision(database) == 1


def test_two_processes_at_once_under_one_key_make_one_job(database_url: str) -> None:
    """Two handles know nothing of each other, as two replicas do not."""
    with (
        closing(open_database(database_url)) as first,
        closing(open_database(database_url)) as second,
        ThreadPoolExecutor(8) as pool,
    ):
        for round_ in range(5):
            used = key(name=f"k{round_}")
            found = list(
                pool.map(lambda n: send((first, second)[n % 2], f"a{round_}", used), range(8))  # noqa: B023 - consumed in the round
            )
            assert Counter(created for _, created in found) == {True: 1, False: 7}
        assert len(list_jobs(first).items) == 5


def test_of_two_bodies_at_once_under_one_key_one_is_a_conflict(database: Database) -> None:
    def attempt(number: int) -> str:
        try:
            send(database, f"j{number}", key(f"body {number}"))
        except Conflict as error:
            return error.path
        return "made"

    with ThreadPoolExecutor(8) as pool:
        found = Counter(pool.map(attempt, range(8)))
    assert found == {"made": 1, "Idempotency-Key": 7}


def test_key_lasts_a_day_by_the_clock_of_the_service(database: Database) -> None:
    send(database, "a", key())
    almost_s = NOW_S + IDEMPOTENCY_S - 1
    trim_history(database, keep=10, now_s=almost_s)
    assert job_of_key(database, key(), now_s=almost_s) is not None
    assert send(database, "a", key(), almost_s)[1] is False
    trim_history(database, keep=10, now_s=NOW_S + IDEMPOTENCY_S)
    assert job_of_key(database, key(), now_s=NOW_S + IDEMPOTENCY_S) is None
    assert send(database, "b", key("other"), NOW_S + IDEMPOTENCY_S)[1] is True


def test_key_that_is_over_is_used_anew_before_it_is_forgotten(database: Database) -> None:
    send(database, "a", key())
    later_s = NOW_S + IDEMPOTENCY_S
    second, created = send(database, "b", key("other"), later_s)
    assert created
    assert send(database, "b", key("other"), later_s + 1) == (second, False)


def test_refused_submission_does_not_use_its_key(database: Database) -> None:
    send(database, "a", key(name="first"))
    with pytest.raises(Conflict, match="exists"):
        send(database, "a", key(name="second"))
    cancel_job(database, "default", "a", now_s=NOW_S)
    assert send(database, "a", key(name="second"))[1] is True


def test_key_finds_its_job_whatever_became_of_it(database: Database) -> None:
    first, _ = send(database, "a", key())
    cancel_job(database, "default", "a", now_s=NOW_S)
    again, created = send(database, "a", key())
    assert (again.uid, again.state, created) == (first.uid, "cancelled", False)


def test_each_job_of_a_batch_has_its_key(database: Database) -> None:
    submissions = [
        Submission(make_spec(name), {}, key(name, name=f"k {index}"))
        for index, name in enumerate("abc")
    ]
    for created in (True, False):
        done = run_batch(database, ends=(), submissions=submissions, now_s=NOW_S)
        assert [isinstance(r, tuple) and r[1] for r in done.submitted] == [created] * 3


def test_batches_at_once_under_one_key_are_one(database: Database) -> None:
    submissions = [Submission(make_spec(n), {}, key(n, name=f"k {n}")) for n in "abcdef"]
    ends = [End("default", "x", key("x", name="k delete 0"))]
    send(database, "x", key(name="x"))

    def attempt(_: int) -> list[bool]:
        done = run_batch(database, ends=ends, submissions=submissions, now_s=NOW_S)
        (ended,) = done.ended
        assert isinstance(ended, JobView)
        assert ended.state == "cancelled"
        return [isinstance(r, tuple) and r[1] for r in done.submitted]

    with ThreadPoolExecutor(6) as pool:
        found = sorted(pool.map(attempt, range(6)))
    assert found == [[False] * 6] * 5 + [[True] * 6]
    assert len(list_jobs(database).items) == 7


def test_same_key_twice_in_one_transaction_is_one_job(database: Database) -> None:
    """A request that a proxy has doubled may share its transaction with itself."""
    asked = [(database, Submission(make_spec("a"), {}, k)) for k in (key(), key(), key("other"))]
    with database.write(NOW_S) as tx:
        first, second, third = submit_together(tx, asked)
    assert isinstance(first, tuple)
    assert isinstance(second, tuple)
    assert (first[0].uid, first[1], second[1]) == (second[0].uid, True, False)
    assert isinstance(third, Conflict)
    assert third.path == "Idempotency-Key"
