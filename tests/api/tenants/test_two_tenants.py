"""What a tenant can find out of another: numbers, and not one name, by any path."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx2
import pytest

from api.auth import Caller, Role
from api.store.engine import Database
from api.store.schema import migrate, open_database
from tests.api.http.contract import Contract
from tests.api.http.yard import Yard
from tests.api.tenants.crawl import Question, questions
from tests.api.tenants.town import ALPHA, BETA, MARK, OTHER, Door, Town, bound, town

WORKERS = 12
"""Streams last a second each; they are read side by side."""


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory, contract: Contract) -> Iterator[Town]:
    """A town that nobody changes."""
    url = f"sqlite:///{tmp_path_factory.mktemp('town') / 'podyard.db'}"
    migrate(url)
    database: Database = open_database(url)
    try:
        with Yard(database, contract) as yard, town(yard) as made:
            yield made
    finally:
        database.close()


@pytest.fixture(scope="module")
def ann(there: Town, contract: Contract) -> Door:
    return Door(there.yard, bound("ann", Role.SUBMITTER, ALPHA), contract)


def ask(door: Door, question: Question) -> httpx2.Response:
    return door.send(question.method, question.path, question.body, question.headers)


def ask_all(door: Door, asked: list[Question]) -> list[tuple[Question, httpx2.Response]]:
    """The answers, none of them a failure of the service."""
    streams = [question for question in asked if "timeout" in question.path]
    with ThreadPoolExecutor(WORKERS) as pool:
        streamed = dict(zip(streams, pool.map(partial(ask, door), streams), strict=True))
    answers = [(q, streamed.get(q) or ask(door, q)) for q in asked]
    for question, answer in answers:
        assert answer.status_code < 500, f"{question}: {answer.text[:300]}"
    return answers


def leaks(answer: httpx2.Response, there: Town) -> list[str]:
    """Where names of the other tenant stand in an answer."""
    text = answer.text + repr(dict(answer.headers))
    found = [text[max(0, m.start() - 60) : m.end() + 30] for m in re.finditer(MARK, text, re.I)]
    return found + [uid for uid in there.uids if uid in text]


def test_no_answer_names_anything_of_another_tenant(there: Town, ann: Door) -> None:
    found = {}
    for question, answer in ask_all(ann, list(questions(theirs=False))):
        if wrong := leaks(answer, there):
            found[f"{question.method} {question.path}"] = wrong[:3]
    assert found == {}


def test_things_of_another_tenant_are_answered_like_things_that_are_not_there(ann: Door) -> None:
    """A name is asked for that is theirs, and one as long that is nobody's."""
    different = {}
    asked = list(questions(theirs=True))
    of_nobody = ask_all(ann, [question.as_of(MARK, OTHER) for question in asked])
    for (question, theirs), (_, nobodys) in zip(ask_all(ann, asked), of_nobody, strict=True):
        if (theirs.status_code, _plain(theirs)) != (nobodys.status_code, _plain(nobodys)):
            different[question.path] = (theirs.text[:300], nobodys.text[:300])
    assert different == {}


def test_whoever_sees_all_namespaces_finds_the_names_by_the_same_questions(there: Town) -> None:
    """Else the tests above would prove nothing."""
    expected = {
        "/v1/jobs",
        "/v1/pods",
        "/v1/events",
        "/v1/watch",
        "/v1/claims",
        "/v1/queues",
        "/v1/usage",
        "/v1/overview",
        "/v1/map",
        "/v1/hooks/deliveries",
        "/v1/whatif",
        f"/v1/namespaces/{ALPHA}/jobs/wait/explain",
        f"/v1/namespaces/{ALPHA}/jobs/run/events",
        "/api/v1/pods",
        "/api/v1/namespaces",
        "/api/v1/secrets",
        "/api/v1/events",
        "/apis/podyard.io/v1/jobs",
        "/apis/batch.volcano.sh/v1alpha1/jobs",
        "/apis/scheduling.volcano.sh/v1beta1/queues",
        "/apis/scheduling.volcano.sh/v1beta1/podgroups",
    }
    door = Door(there.yard, Caller("root"))
    every = (q for q in questions(theirs=False) if "watch=true" not in q.path)
    asked = [q for q in every if q.path.partition("?")[0] in expected]
    assert {
        q.path.partition("?")[0] for q, a in ask_all(door, asked) if leaks(a, there)
    } == expected


def _plain(answer: httpx2.Response) -> str:
    """An answer without the name that was asked for, and without the time."""
    text = answer.text.replace(MARK, OTHER)
    return re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "TIME", text)


def test_caller_without_any_namespace_sees_no_job_at_all(there: Town, contract: Contract) -> None:
    nobody = Door(there.yard, Caller("nobody", Role.VIEWER, frozenset()), contract)
    for path in ("/v1/jobs", "/v1/pods", "/v1/hooks/deliveries"):
        assert nobody.send("GET", path).json()["items"] == []
    assert nobody.send("GET", "/v1/overview").json()["gpus"]["used"] > 0


def test_caller_of_two_namespaces_sees_both(there: Town, contract: Contract) -> None:
    both = Door(there.yard, bound("both", Role.SUBMITTER, ALPHA, BETA), contract)
    found = {job["namespace"] for job in both.send("GET", "/v1/jobs").json()["items"]}
    assert found == {ALPHA, BETA}
