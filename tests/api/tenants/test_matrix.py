"""Each role and each call: let in or refused as the table says, and no call is missing in it."""

import re
from collections.abc import Iterator, Mapping

import pytest
from starlette.routing import Route

from api.auth import Caller, Role
from api.k8s.registry import registry
from api.store.schema import migrate, open_database
from tests.api.http.contract import Contract
from tests.api.http.yard import Json, Yard
from tests.api.tenants.matrix import KUBERNETES, V1, Row, rows
from tests.api.tenants.town import ALPHA, Door

CALLS = tuple(rows(V1, verb_first=True))
KINDS = tuple(rows(KUBERNETES, verb_first=False))

READS = ("get", "list", "watch")
METHODS = {"create": "POST", "update": "PUT", "patch": "PATCH"}

EVERYBODY = tuple((role, is_bound) for role in Role for is_bound in (False, True))

Doors = Mapping[tuple[Role, bool], Door]


@pytest.fixture(scope="module")
def yard_with_tokens(
    tmp_path_factory: pytest.TempPathFactory, contract: Contract
) -> Iterator[tuple[Yard, Doors]]:
    """A service, and a caller of each role: one who sees all, one bound to a namespace."""
    url = f"sqlite:///{tmp_path_factory.mktemp('matrix') / 'podyard.db'}"
    migrate(url)
    database = open_database(url)
    try:
        with Yard(database, contract) as yard:
            yard.load()
            yield yard, {key: Door(yard, _caller(*key)) for key in EVERYBODY if _is_real(*key)}
    finally:
        database.close()


@pytest.fixture(scope="module")
def doors(yard_with_tokens: tuple[Yard, Doors]) -> Doors:
    return yard_with_tokens[1]


def _is_real(role: Role, is_bound: bool) -> bool:
    return not (role is Role.AGENT and is_bound)


def _caller(role: Role, is_bound: bool) -> Caller:
    namespaces = frozenset({ALPHA}) if is_bound else None
    nodes = frozenset({"a1"}) if role is Role.AGENT else None
    return Caller(f"{role}-{'bound' if is_bound else 'all'}", role, namespaces, nodes)


def _cases(table: tuple[Row, ...]) -> Iterator[object]:
    for row in table:
        for role, is_bound in EVERYBODY:
            if _is_real(role, is_bound):
                may = role in (row.bound if is_bound else row.all)
                name = f"{role}{' bound' if is_bound else ''} {'may' if may else 'may not'}"
                yield pytest.param(row, (role, is_bound), may, id=f"{name} {row.verb} {row.what}")


@pytest.mark.parametrize(("row", "who", "may"), tuple(_cases(CALLS)))
def test_call_is_let_in_or_refused(
    doors: Doors, row: Row, who: tuple[Role, bool], *, may: bool
) -> None:
    answer = doors[who].send(row.verb, _harmless(row), {} if row.verb != "GET" else None)
    assert answer.status_code != 401
    assert (answer.status_code != 403) is may, answer.text
    if not may:
        assert answer.headers["content-type"] == "application/problem+json"
        assert f"has the role {who[0]}" in answer.json()["detail"]


@pytest.mark.parametrize(("row", "who", "may"), tuple(_cases(KINDS)))
def test_verbs_of_a_kind_are_let_in_or_refused(
    doors: Doors, row: Row, who: tuple[Role, bool], *, may: bool
) -> None:
    for method, path in _kubernetes(row):
        answer = doors[who].send(method, path, {} if method != "GET" else None)
        assert answer.status_code != 401
        assert (answer.status_code != 403) is may, f"{method} {path}: {answer.text}"
        if not may:
            told = answer.json()
            assert (told["kind"], told["reason"], told["code"]) == ("Status", "Forbidden", 403)


@pytest.mark.parametrize("row", [r for r in CALLS if f"/{ALPHA}/" in r.what], ids=lambda r: r.what)
def test_namespace_of_others_is_refused_to_all_roles_that_are_bound(doors: Doors, row: Row) -> None:
    for (role, is_bound), door in doors.items():
        if is_bound:
            path = row.what.replace(f"/{ALPHA}/", "/beta/")
            answer = door.send(row.verb, path, {} if row.verb != "GET" else None)
            assert answer.status_code == 403, f"{role} {path}"


@pytest.mark.parametrize("row", KINDS, ids=lambda r: f"{r.verb} {r.what}")
def test_kinds_in_a_namespace_of_others_are_refused_to_all_who_are_bound(
    doors: Doors, row: Row
) -> None:
    for (_, is_bound), door in doors.items():
        for method, path in _kubernetes(row):
            if is_bound and f"/{ALPHA}/" in path:
                other = path.replace(f"/{ALPHA}/", "/beta/")
                answer = door.send(method, other, {} if method != "GET" else None)
                assert answer.status_code == 403, f"{method} {other}"


@pytest.mark.parametrize("row", [r for r in CALLS if "a1" in r.what], ids=lambda r: r.what)
def test_agent_is_refused_for_nodes_that_are_not_its_own(doors: Doors, row: Row) -> None:
    door = doors[Role.AGENT, False]
    path = row.what.replace("a1", "a2")
    assert door.send(row.verb, path, {} if row.verb != "GET" else None).status_code == 403


def test_nobody_without_a_token_is_let_in_but_where_all_are(
    yard_with_tokens: tuple[Yard, Doors],
) -> None:
    yard, _ = yard_with_tokens
    for row in CALLS:
        is_open = row.all == frozenset(Role) and not row.what.startswith("/v1/")
        body: Json | None = {} if row.verb != "GET" else None
        answer = yard.client.request(row.verb, _harmless(row), json=body)
        if row.what not in {"/login", "/v1/pods?node=a1"}:
            assert (answer.status_code == 401) is not is_open, f"{row.what}: {answer.text[:200]}"


def test_every_route_is_in_the_table(yard_with_tokens: tuple[Yard, Doors]) -> None:
    yard, _ = yard_with_tokens
    templates = [re.sub(r"\{\w+(:path)?\}", "[^/]+", str(r.path)) for r in _routes(yard)]
    asked = {(row.verb, row.what.partition("?")[0]) for row in CALLS}
    for route, template in zip(_routes(yard), templates, strict=True):
        for method in sorted(set(route.methods or ()) - {"HEAD", "OPTIONS"}):
            found = [p for verb, p in asked if verb == method and re.fullmatch(template, p)]
            assert found, f"{method} {route.path} is not in tests/api/tenants/matrix.py"


def test_every_kind_is_in_the_table() -> None:
    there = {(row.what, row.verb) for row in KINDS}
    for handler in registry().handlers:
        kind = handler.kind
        for part, verbs in (("", kind.verbs), *((s.name, s.verbs) for s in kind.subresources)):
            name = f"{kind.resource}/{part}" if part else kind.resource
            for verb in verbs:
                assert (name, "read" if verb in READS else "write") in there, f"{verb} {name}"


def _routes(yard: Yard) -> list[Route]:
    return [route for route in yard.app.routed.routes if isinstance(route, Route)]


def _harmless(row: Row) -> str:
    """The call in a form that changes nothing where it is let in, and does not last."""
    return f"{row.what}?timeout_s=0" if row.what == "/v1/watch" else row.what


def _kubernetes(row: Row) -> Iterator[tuple[str, str]]:
    """Method and path of each verb that a row stands for, with names of nothing there is."""
    resource, _, part = row.what.partition("/")
    for handler in registry().handlers:
        kind = handler.kind
        if kind.resource != resource:
            continue
        sub = kind.subresource(part) if part else None
        root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        root += f"/namespaces/{ALPHA}/{kind.plural}" if kind.namespaced else f"/{kind.plural}"
        name = ALPHA if resource == "namespaces" else "none"
        for verb in sub.verbs if sub else kind.verbs:
            if (verb in READS) != (row.verb == "read"):
                continue
            if verb == "watch":
                yield "GET", f"{root}?watch=true&resourceVersion=none"
            elif verb in {"list", "deletecollection"} or (verb == "create" and not part):
                yield {"list": "GET", "create": "POST"}.get(verb, "DELETE"), root
            else:
                path = f"{root}/{name}" + (f"/{part}" if part else "")
                yield METHODS.get(verb, "GET" if verb == "get" else "DELETE"), path
