"""How clients show who they are: tokens in options, variables, files and contexts."""

import os
import stat
from pathlib import Path

import pytest

from client.access import Access
from client.contexts import contexts_file, load_contexts
from client.errors import InputError
from client.http import Client
from client.showing import auth_of, verify_of
from tests.client.fake_server import Answer, FakeServer
from tests.client.golden_text import Yardctl

WHO = {"asked": True, "name": "anna", "role": "viewer", "namespaces": ["a", "b"], "nodes": None}


def sent(server: FakeServer) -> str | None:
    return server.requests[-1].headers.get("authorization")


@pytest.fixture(autouse=True)
def who(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.replies["GET", "/v1/whoami"] = Answer(WHO)
    for name in ("PODYARD_TOKEN", "PODYARD_TOKEN_FILE", "PODYARD_CA_FILE"):
        monkeypatch.delenv(name, raising=False)


def test_token_of_a_file_is_sent_and_read_again_when_it_changes(
    server: FakeServer, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    path.write_text("first\n")
    with Client(server.url, access=Access(token_file=str(path))) as client:
        client.whoami()
        assert sent(server) == "Bearer first"
        (tmp_path / "new").write_text("second\n")
        (tmp_path / "new").replace(path)
        client.whoami()
        assert sent(server) == "Bearer second"
        path.unlink()
        client.whoami()
        assert sent(server) == "Bearer second"


@pytest.mark.parametrize("text", ["", "\n", "a b", "a\nb", "é"])
def test_file_without_a_token_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    with pytest.raises(InputError):
        auth_of(Access(token_file=str(path)))


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="/none"):
        auth_of(Access(token_file="/none"))
    with pytest.raises(InputError, match="--ca-file /none"):
        verify_of(Access(ca_file="/none"))
    path = tmp_path / "ca.pem"
    path.write_text("no certificate")
    with pytest.raises(InputError, match="no certificates that can be used"):
        verify_of(Access(ca_file=str(path)))


def test_access_does_not_show_its_token() -> None:
    assert "secret" not in repr(Access("secret"))


def test_option_goes_before_the_variable_and_that_before_the_context(
    yardctl: Yardctl, server: FakeServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    yardctl("context", "set", "lab", "-s", server.url, "--token", "of-context")
    monkeypatch.delenv("PODYARD_SERVER")
    assert yardctl("whoami").exit_code == 0
    assert sent(server) == "Bearer of-context"
    monkeypatch.setenv("PODYARD_TOKEN", "of-variable")
    yardctl("whoami")
    assert sent(server) == "Bearer of-variable"
    path = tmp_path / "token"
    path.write_text("of-option")
    yardctl("--token-file", str(path), "whoami")
    assert sent(server) == "Bearer of-option"
    assert yardctl("--token", "a", "--token-file", str(path), "whoami").exit_code == 2


def test_token_of_a_context_goes_to_its_own_service_alone(
    yardctl: Yardctl, server: FakeServer
) -> None:
    """Whoever has `yardctl` ask another address would be given the token."""
    yardctl("context", "set", "lab", "-s", "http://127.0.0.1:9", "--token", "of-context")
    assert yardctl("-s", server.url, "whoami").exit_code == 0
    assert sent(server) is None


def test_file_of_contexts_is_for_its_owner_alone(yardctl: Yardctl) -> None:
    yardctl("context", "set", "lab", "-s", "http://a", "--token", "t", "--ca-file", "ca.pem")
    path = contexts_file()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    shown = load_contexts().known["lab"].access
    assert (shown.token, shown.ca_file) == ("t", str(Path("ca.pem").absolute()))
    yardctl("context", "set", "lab", "--token-file", "t.txt")
    shown = load_contexts().known["lab"].access
    assert (shown.token, shown.token_file) == ("", os.path.abspath("t.txt"))  # noqa: PTH100 - as the program says it
    assert "t.txt" not in yardctl("context", "list").output


def test_whoami_says_it_in_a_sentence(yardctl: Yardctl, server: FakeServer) -> None:
    assert yardctl("whoami").stdout == "anna, with the role viewer; bound to namespaces a, b\n"
    server.replies["GET", "/v1/whoami"] = Answer({"asked": False})
    assert "everybody may do everything" in yardctl("whoami").stdout


def test_audit_is_a_table_of_the_newest(yardctl: Yardctl, server: FakeServer) -> None:
    entry = {
        "id": 1,
        "at": "2026-01-01T00:00:00.000Z",
        "actor": "anna",
        "role": "viewer",
        "method": "POST",
        "path": "/v1/jobs",
        "status": 403,
        "request_id": "r",
        "address": "::1",
    }
    page = {"items": [entry, entry], "revision": 1, "next": None}
    server.replies["GET", "/v1/audit"] = Answer(page)
    done = yardctl("audit", "--actor", "anna", "--since", "2h", "--limit", "1")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["AT", "ACTOR", "ROLE", "STATUS", "METHOD", "PATH", "FROM"]
    assert len(lines) == 2
    query = server.requests[-1].query
    assert query["actor"] == "anna"
    assert query["since"].endswith("Z")
    server.replies["GET", "/v1/audit"] = Answer(page | {"items": []})
    assert "No entries" in yardctl("audit").stderr
    assert yardctl("audit", "--since", "never").exit_code == 2
