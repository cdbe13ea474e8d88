"""From what an identity provider says to what somebody may do."""

from pathlib import Path

import pytest

from api.auth import Caller, Forbidden, Role
from api.auth.claims import read_rules

FILE = """
name: email
rules:
  - {claim: groups, has: sre, role: operator}
  - {claim: realm_access.roles, has: llm, role: submitter, namespaces: [research, shared]}
  - {claim: "https://x.example/kind", has: guest, role: viewer}
"""


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "roles.yaml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("claims", "caller"),
    [
        ({"groups": ["x", "sre"]}, Caller("oidc:a@x", Role.OPERATOR)),
        ({"groups": "sre"}, Caller("oidc:a@x", Role.OPERATOR)),
        (
            {"realm_access": {"roles": ["llm"]}},
            Caller("oidc:a@x", Role.SUBMITTER, frozenset({"research", "shared"})),
        ),
        ({"https://x.example/kind": "guest"}, Caller("oidc:a@x", Role.VIEWER)),
        (
            {"groups": ["sre"], "realm_access": {"roles": ["llm"]}},
            Caller("oidc:a@x", Role.OPERATOR),
        ),
    ],
)
def test_first_rule_that_holds_gives_the_role(
    tmp_path: Path, claims: dict[str, object], caller: Caller
) -> None:
    rules = read_rules(written(tmp_path, FILE))
    assert rules.caller_of({"email": "a@x"} | claims) == caller


@pytest.mark.parametrize(
    "claims",
    [
        {"email": "a@x"},
        {"email": "a@x", "groups": "sre-team"},
        {"email": "a@x", "realm_access": "llm"},
        {"groups": ["sre"]},
        {"email": "a\nb", "groups": ["sre"]},
        {"email": 7, "groups": ["sre"]},
    ],
)
def test_somebody_without_a_rule_or_name_has_no_role(
    tmp_path: Path, claims: dict[str, object]
) -> None:
    with pytest.raises(Forbidden):
        read_rules(written(tmp_path, FILE)).caller_of(claims)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "must hold an object"),
        ("rules: []", "at least one rule"),
        ("rules: [7]", r"rules\[0\]: must be an object"),
        (
            "{rules: [{claim: a, has: b, role: king}]}",
            r"rules\[0\].role: found 'king'; allowed are",
        ),
        ("{rules: [{claim: a, has: b, role: agent}]}", "found 'agent'"),
        ("{rules: [{claim: a, role: viewer}]}", r"rules\[0\].has: found None"),
        ("{rules: [{claim: a, has: b, role: viewer, x: 1}]}", r"rules\[0\].x: unknown"),
        ("{rules: [{claim: a, has: b, role: viewer, namespaces: x}]}", "a list of names"),
        ("{rules: [{claim: a, has: b, role: admin, namespaces: [x]}]}", "leave it out"),
        ("{name: [], rules: [{claim: a, has: b, role: viewer}]}", "name: found"),
        ("a: [", "roles.yaml"),
    ],
)
def test_file_that_is_wrong_is_refused_with_the_place(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_rules(written(tmp_path, text))


def test_file_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match=r"/none\.yaml"):
        read_rules("/none.yaml")
