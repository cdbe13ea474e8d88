"""Random questions of random callers: whoever is not bound to the other tenant learns no name."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.auth import Caller, Role
from api.k8s.registry import registry
from api.store.schema import migrate, open_database
from tests.api.http.contract import Contract, description
from tests.api.http.yard import Yard
from tests.api.tenants.crawl import NODES, Question
from tests.api.tenants.test_two_tenants import ask, leaks
from tests.api.tenants.town import ALPHA, Door, Town, bound, town

WORDS = (
    *("alpha", "default", "kube-system", "low", "run", "high", "wait", "none", "org", "ours"),
    *("shared", "root", "object", "1", "2", "9", "job", "pod", "queue", "running", "pending"),
    *("job.bound", "rack", "leaf", "rack:r1", "exact", "false", "true", "0", "json", "main.js"),
    *NODES,
)
"""What paths and queries are filled with: names of things there are, without the other's."""

SELECTORS = ("", "a=b", "metadata.name=run", "spec.nodeName=a1", "status.phase=Running", "x in (y)")
SETTLED = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory, contract: Contract) -> Iterator[Town]:
    url = f"sqlite:///{tmp_path_factory.mktemp('random') / 'podyard.db'}"
    migrate(url)
    database = open_database(url)
    try:
        with Yard(database, contract) as yard, town(yard) as made:
            yield made
    finally:
        database.close()


@pytest.fixture(scope="module")
def doors(there: Town) -> dict[str, Door]:
    """Callers who may not see the other tenant: of any role, of one namespace, several, none."""
    callers = [bound(f"{role}-alpha", role, ALPHA) for role in Role if role is not Role.AGENT]
    callers += [bound("several", Role.OPERATOR, ALPHA, "default", "kube-system")]
    callers += [Caller("none", Role.VIEWER, frozenset())]
    return {caller.name: Door(there.yard, caller) for caller in callers}


NAMES = ("viewer-alpha", "submitter-alpha", "operator-alpha", "admin-alpha", "several", "none")

words = st.sampled_from(WORDS)


@st.composite
def of_v1(draw: st.DrawFn) -> Question:
    """A read of `/v1` with any words in its path and any of its parameters."""
    paths = description()["paths"]
    route = draw(st.sampled_from(sorted(p for p in paths if "get" in paths[p] and "logs" not in p)))
    path = "/".join(draw(words) if part.startswith("{") else part for part in route.split("/"))
    known = [p["name"] for p in paths[route]["get"].get("parameters", ()) if p["in"] == "query"]
    chosen = draw(st.lists(st.sampled_from(known), unique=True, max_size=4)) if known else []
    # Whatever waits is not waited for.
    query = [f"{n}={quote(draw(words))}" for n in chosen if n not in {"timeout_s", "pace_s"}]
    if "timeout_s" in known:
        query.append("timeout_s=0")
    return Question("GET", path + ("?" + "&".join(query) if query else ""))


@st.composite
def of_kubernetes(draw: st.DrawFn) -> Question:
    """A read of any kind, in any namespace but the other's, by any selectors."""
    kind = draw(st.sampled_from(registry().handlers)).kind
    path = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    space = draw(st.sampled_from(("", ALPHA, "default", "none")))
    path += f"/namespaces/{space}/{kind.plural}" if space and kind.namespaced else f"/{kind.plural}"
    if draw(st.booleans()):
        path += f"/{draw(words)}"
    fields, labels = draw(st.sampled_from(SELECTORS)), draw(st.sampled_from(SELECTORS))
    query = f"fieldSelector={quote(fields)}&labelSelector={quote(labels)}"
    if draw(st.booleans()):
        query += f"&limit={draw(st.integers(1, 4))}"
    return Question("GET", f"{path}?{query}", accept=draw(st.sampled_from(("", TABLES))))


TABLES = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

calls = st.one_of(of_v1(), of_kubernetes())


def check(there: Town, doors: dict[str, Door], name: str, question: Question) -> None:
    """Follow the pages to their end, too: what comes after a cursor is as little others'."""
    for _ in range(3):
        answer = ask(doors[name], question)
        assert answer.status_code < 500, f"{question}: {answer.text[:300]}"
        assert leaks(answer, there) == [], question
        following = _next_of(question, answer.text)
        if following is None:
            return
        question = following


def _next_of(question: Question, text: str) -> Question | None:
    for mark, name in (('"next":"', "cursor"), ('"continue":"', "continue")):
        _, found, rest = text.partition(mark)
        if found and f"{name}=" not in question.path:
            joint = "&" if "?" in question.path else "?"
            path = f"{question.path}{joint}{name}={quote(rest.partition(chr(34))[0])}"
            return Question("GET", path, accept=question.accept)
    return None


@settings(SETTLED, max_examples=120)
@given(name=st.sampled_from(NAMES), question=calls)
def test_random_question_tells_nothing_of_another_tenant(
    there: Town, doors: dict[str, Door], name: str, question: Question
) -> None:
    check(there, doors, name, question)


@pytest.mark.slow
@settings(SETTLED, max_examples=5_000)
@given(name=st.sampled_from(NAMES), question=calls)
def test_many_random_questions_tell_nothing_of_another_tenant(
    there: Town, doors: dict[str, Door], name: str, question: Question
) -> None:
    check(there, doors, name, question)
