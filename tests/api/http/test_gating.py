"""What settings make of the gate, and what is not served."""

from pathlib import Path

import pytest

from api.auth import Caller, Role
from api.clock import ManualClock
from api.http.gating import check_exposed, gate_by, verifier_by
from api.settings import Settings
from api.store.engine import Database
from api.store.errors import StartupError
from api.store.tokens import add_token

ROLES = "rules: [{claim: groups, has: sre, role: operator}]"


@pytest.fixture
def database_kind() -> str:
    return "sqlite"


def with_roles(tmp_path: Path, text: str = ROLES, **fields: str) -> Settings:
    path = tmp_path / "roles.yaml"
    path.write_text(text)
    given = {"oidc_issuer": "https://idp.example", "oidc_audience": "podyard"} | fields
    return Settings(oidc_roles_file=str(path), **given)  # type: ignore[arg-type]  # checked by the model


def test_address_of_others_is_served_once_there_is_a_token(database: Database) -> None:
    settings = Settings(host="0.0.0.0")
    with pytest.raises(StartupError, match="podyard token create --role admin"):
        check_exposed(settings, database)
    add_token(database, Caller("root", Role.ADMIN), now_s=0.0)
    check_exposed(settings, database)
    with pytest.raises(StartupError, match="auth is off"):
        check_exposed(Settings(host="0.0.0.0", auth="off"), database)
    check_exposed(Settings(host="0.0.0.0", auth="off", insecure=True), database)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(host="::1"),
        Settings(host="0.0.0.0", insecure=True),
        Settings(host="0.0.0.0", auth="required"),
        Settings(host="0.0.0.0", oidc_issuer="https://idp.example"),
        Settings(host="0.0.0.0", tls_client_ca="ca.pem"),
    ],
)
def test_address_is_served_where_nobody_else_comes_or_all_are_asked(
    database: Database, settings: Settings
) -> None:
    check_exposed(settings, database)


@pytest.mark.parametrize(
    ("settings", "asks"),
    [
        (Settings(), False),
        (Settings(insecure=True, host="0.0.0.0"), False),
        (Settings(auth="required"), True),
        (Settings(auth="off", tls_client_ca="ca.pem"), False),
        (Settings(tls_client_ca="ca.pem"), True),
    ],
)
def test_gate_asks_from_the_start_where_callers_can_be_known(
    database: Database, settings: Settings, *, asks: bool
) -> None:
    gate = gate_by(settings, database, ManualClock())
    gate.start()
    gate.stop()
    assert gate.keyring.is_asking is asks


def test_gate_that_is_off_asks_nobody_though_there_are_tokens(database: Database) -> None:
    add_token(database, Caller("root", Role.ADMIN), now_s=0.0)
    gate = gate_by(Settings(auth="off"), database, ManualClock())
    gate.start()
    gate.stop()
    assert not gate.keyring.is_asking


def test_gate_asks_once_there_was_a_token_also_after_a_restart(database: Database) -> None:
    add_token(database, Caller("root", Role.ADMIN), now_s=0.0, expires_at=1.0)
    gate = gate_by(Settings(), database, ManualClock())
    gate.start()
    gate.stop()
    assert gate.keyring.is_asking


def test_identity_provider_is_made_of_settings(tmp_path: Path) -> None:
    assert verifier_by(Settings()) is None
    assert verifier_by(with_roles(tmp_path)) is not None


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"oidc_audience": ""}, "needs oidc_audience"),
        ({"oidc_issuer": "http://idp.example"}, "oidc_issuer: found 'http://idp.example'"),
        ({"oidc_jwks_url": "http://idp.example/keys"}, "oidc_jwks_url: found"),
        ({"oidc_jwks_file": "/none.json"}, "oidc_jwks_file: "),
        ({"oidc_roles_file": "/none.yaml"}, "oidc_roles_file: /none.yaml"),
    ],
)
def test_wrong_settings_of_an_identity_provider_are_named(
    tmp_path: Path, fields: dict[str, str], why: str
) -> None:
    settings = with_roles(tmp_path).model_copy(update=fields)
    with pytest.raises(StartupError, match=why):
        verifier_by(settings)


def test_wrong_rules_are_named_with_their_place(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=r"roles\.yaml: rules: must be a list"):
        verifier_by(with_roles(tmp_path, "rules: []"))
