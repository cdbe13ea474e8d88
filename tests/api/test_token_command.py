"""`podyard token`."""

import stat
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from api.auth import Role
from api.auth.tokens import read_id
from api.command import app
from api.store.schema import migrate, open_database
from api.store.tokens import list_tokens


class Command:
    """The command line, on a database of its own."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self, *words: str) -> Result:
        return CliRunner().invoke(app, ["token", *words, "--database-url", self.url])

    def ok(self, *words: str) -> str:
        done = self(*words)
        assert done.exit_code == 0, done.output
        return done.stdout.strip()


@pytest.fixture
def command(tmp_path: Path, sqlite_template: Path) -> Command:
    path = tmp_path / "podyard.db"
    path.write_bytes(sqlite_template.read_bytes())
    return Command(f"sqlite:///{path}")


def test_first_token_makes_the_database_too(tmp_path: Path) -> None:
    command = Command(f"sqlite:///{tmp_path / 'new.db'}")
    text = command.ok("create", "--role", "admin")
    assert read_id(text) is not None
    with closing(open_database(command.url)) as db:
        (token,) = list_tokens(db)
    assert (token.caller.name, token.caller.role) == ("admin", Role.ADMIN)
    assert token.expires_at is not None
    assert round(token.expires_at - token.created_at) == 365 * 86_400


def test_token_for_a_file_is_for_its_owner_alone_and_not_shown(
    command: Command, tmp_path: Path
) -> None:
    out = tmp_path / "token"
    told = command.ok("create", "--role", "agent", "--node", "n001", "--out", str(out))
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    text = out.read_text().strip()
    assert read_id(text) is not None
    assert text not in told
    assert list(tmp_path.glob(".token.*")) == []


def test_list_shows_no_secret(command: Command) -> None:
    text = command.ok("create", "ci", "--role", "submitter", "-n", "research", "-n", "vision")
    command.ok("create", "--role", "agent", "--node", "n[1-5]", "--expires", "never")
    told = command.ok("list")
    assert text not in told
    lines = [line.split("  ") for line in told.splitlines()]
    assert [line[0] for line in lines] == ["NAME", "agent", "ci"]
    assert "node n1,n2,n3 and 2 more" in told
    assert "namespace research,vision" in told
    assert told.count("good") == 2


def test_token_is_rotated_and_revoked(command: Command) -> None:
    first = command.ok("create", "ci", "--role", "viewer")
    second = command.ok("rotate", "ci", "--overlap", "2h")
    assert first != second
    assert "within 5 seconds" in command.ok("revoke", "ci")
    assert command.ok("list").count("revoked") == 2
    assert "no token 'ci' is left" in command("revoke", "ci").output
    assert "no good token 'ci'" in command("rotate", "ci").output


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("create", "--role", "king"), "king"),
        (("create",), "--role"),
        (("create", "a b", "--role", "viewer"), "found 'a b'"),
        (("create", "--role", "agent"), "--node NODE, or for --all-nodes"),
        (("create", "--role", "agent", "--node", "a", "--all-nodes"), "not both"),
        (("create", "--role", "agent", "--node", "n[1-"), "--node:"),
        (("create", "--role", "agent", "--node", "n[1-999999]"), "--node:"),
        (("create", "--role", "viewer", "--node", "a"), "--node is for the role agent"),
        (("create", "--role", "admin", "-n", "x"), "found role admin"),
        (("create", "--role", "viewer", "-n", "a/b"), "found 'a/b'"),
        (("create", "--role", "viewer", "--expires", "soon"), "found 'soon'"),
        (("create", "--role", "viewer", "--expires", "0d"), "found '0d'"),
        (("create", "--role", "viewer", "--out", "/none/x"), "podyard token revoke pyd_"),
        (("rotate", "x", "--overlap", "-1h"), "overlap"),
    ],
)
def test_wrong_call_says_what_is_allowed(
    command: Command, words: tuple[str, ...], why: str
) -> None:
    done = command(*words)
    assert done.exit_code != 0
    assert why in " ".join(done.output.replace("│", " ").split())
    assert not isinstance(done.exception, Exception) or isinstance(done.exception, SystemExit)


def test_name_that_is_taken_is_refused(command: Command) -> None:
    command.ok("create", "ci", "--role", "viewer")
    done = command("create", "ci", "--role", "admin")
    assert done.exit_code == 1
    assert "`podyard token rotate ci` replaces it" in done.stderr


def test_database_of_an_older_schema_is_left_alone(tmp_path: Path) -> None:
    command = Command(f"sqlite:///{tmp_path / 'old.db'}")
    migrate(command.url, "2026_12_01_2040")
    done = command("create", "--role", "admin")
    assert done.exit_code == 1
    assert "podyard migrate" in done.stderr
