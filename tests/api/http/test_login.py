"""Logging in with a browser."""

import pytest

from api.auth import Role
from api.store.tokens import revoke
from tests.api.http.guarded import gate_of, token_for
from tests.api.http.yard import Yard

COOKIE = "podyard_session"


@pytest.fixture
def database_kind() -> str:
    """One will do: what differs between databases is tested in `tests/api/store`."""
    return "sqlite"


@pytest.fixture
def token(yard: Yard) -> str:
    return token_for(yard, "anna", Role.SUBMITTER, "research")


def log_in(yard: Yard, token: str) -> str:
    """Log in; the value of the cookie, which the client sends from here on."""
    answer = yard.call("POST", "/login", {"token": token})
    assert answer.status_code == 200, answer.text
    return str(answer.cookies[COOKIE])


def test_cookie_of_a_login_is_for_this_page_alone(yard: Yard, token: str) -> None:
    answer = yard.call("POST", "/login", {"token": token})
    assert answer.json()["name"] == "anna"
    told = answer.headers["set-cookie"].lower()
    assert {"httponly", "samesite=strict", "path=/", "max-age=43200"} <= set(told.split("; "))
    assert token not in told
    assert yard.ok("GET", "/v1/whoami")["namespaces"] == ["research"]


def test_cookie_over_tls_is_never_sent_without(yard: Yard, token: str) -> None:
    answer = yard.client.post("https://127.0.0.1:8080/login", json={"token": token})
    told = answer.headers["set-cookie"]
    assert told.startswith(f"__Host-{COOKIE}=")
    assert "Secure" in told
    assert yard.client.get("https://127.0.0.1:8080/v1/whoami").json()["name"] == "anna"


def test_logout_ends_the_session_for_whoever_has_the_cookie(yard: Yard, token: str) -> None:
    cookie = log_in(yard, token)
    yard.ok("POST", "/logout")
    assert yard.call("GET", "/v1/whoami").status_code == 401
    stolen = {"Cookie": f"{COOKIE}={cookie}"}
    assert yard.call("GET", "/v1/whoami", headers=stolen).status_code == 401
    yard.ok("POST", "/logout")


def test_session_ends_with_its_token(yard: Yard, token: str) -> None:
    log_in(yard, token)
    revoke(yard.database, "anna", now_s=yard.clock.now_s())
    gate_of(yard).keyring.refresh()
    assert yard.call("GET", "/v1/whoami").status_code == 401


def test_session_ends_after_a_while(yard: Yard, token: str) -> None:
    root = token_for(yard, "root", Role.ADMIN)
    log_in(yard, token)
    headers = {"Authorization": f"Bearer {root}"}
    yard.call("POST", "/v1/test/clock", {"advance_s": 43_201}, headers=headers)
    assert yard.client.get("/v1/whoami").status_code == 401


def test_session_of_a_token_that_ends_soon_ends_with_it(yard: Yard, token: str) -> None:
    short = token_for(yard, "bob", Role.VIEWER, expires_at=yard.clock.now_s() + 600)
    answer = yard.call("POST", "/login", {"token": short})
    assert "Max-Age=600" in answer.headers["set-cookie"]


def test_session_is_of_no_use_as_a_token_nor_a_token_as_a_cookie(yard: Yard, token: str) -> None:
    cookie = log_in(yard, token)
    yard.client.cookies.clear()
    bearer = {"Authorization": f"Bearer {cookie}"}
    assert yard.call("GET", "/v1/whoami", headers=bearer).status_code == 401
    as_cookie = {"Cookie": f"{COOKIE}={token}"}
    assert yard.call("GET", "/v1/whoami", headers=as_cookie).status_code == 401
    assert yard.call("POST", "/login", {"token": cookie}).status_code == 401


def test_page_of_another_site_cannot_use_the_session(yard: Yard, token: str) -> None:
    log_in(yard, token)
    answer = yard.call(
        "POST", "/v1/jobs", {"name": "x"}, headers={"Origin": "https://evil.example"}
    )
    assert answer.status_code == 403
    assert answer.json()["type"].endswith("foreign-origin")


@pytest.mark.parametrize("body", [{}, {"token": ""}, {"token": 7}, {"token": "a", "x": 1}])
def test_login_without_a_token_is_refused(yard: Yard, token: str, body: object) -> None:
    assert yard.call("POST", "/login", body).status_code == 422


def test_login_with_a_wrong_token_is_refused(yard: Yard, token: str) -> None:
    answer = yard.call("POST", "/login", {"token": token[:-1] + "_"})
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


def test_login_where_nobody_is_asked_is_refused(yard: Yard) -> None:
    assert yard.call("POST", "/login", {"token": "x"}).status_code == 409


def test_script_of_a_page_is_not_asked_for_a_password_by_the_browser(
    yard: Yard, token: str
) -> None:
    answer = yard.client.get("/v1/jobs", headers={"Sec-Fetch-Mode": "cors"})
    assert answer.headers.get_list("www-authenticate") == ['Bearer realm="podyard"']
