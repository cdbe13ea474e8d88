"""From what an identity provider says of a person to what they may do here: a file of rules.

name: email                 # the claim that names them; default `sub`
rules:                      # the first that holds counts
  - {claim: groups, has: sre, role: operator}
  - {claim: groups, has: llm-team, role: submitter, namespaces: [research, shared]}
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from api.auth.caller import Caller, Role
from api.auth.rights import Forbidden
from scheduler.errors import Problem

PREFIX = "oidc:"
"""Of names of people, so that none can be that of a token."""

NAME_MAX = 200

_FIELDS = frozenset({"claim", "has", "role", "namespaces"})


@dataclass(frozen=True, slots=True)
class Rule:
    """Who has, or is, `has` in a claim gets a role.

    Attributes:
        claim: Its name; `a.b` is also looked for as `b` inside of `a`.
    """

    claim: str
    has: str
    role: Role
    namespaces: frozenset[str] | None = None

    def holds(self, claims: Mapping[str, object]) -> bool:
        value = _value(claims, self.claim)
        return self.has in (value if isinstance(value, list) else [value])


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules of one file."""

    name: str = "sub"
    rules: tuple[Rule, ...] = ()

    def caller_of(self, claims: Mapping[str, object]) -> Caller:
        """Whom claims that were verified are about.

        Raises:
            Forbidden: If no rule gives them a role, or nothing names them.
        """
        name = _value(claims, self.name)
        if not (isinstance(name, str) and 0 < len(name) <= NAME_MAX and name.isprintable()):
            raise Forbidden(Problem("", f"the claim '{self.name}' of your token does not name you"))
        for rule in self.rules:
            if rule.holds(claims):
                return Caller(PREFIX + name, rule.role, rule.namespaces)
        raise Forbidden(
            Problem("", f"'{PREFIX}{name}' has no role: no rule for claims is about them")
        )


def read_rules(path: str) -> Rules:
    """The rules of a file.

    Raises:
        ValueError: Naming the file and what is wrong with it.
    """
    try:
        body = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        return _rules(body)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None


def _rules(body: object) -> Rules:
    if not isinstance(body, dict) or not body.keys() <= {"name", "rules"}:
        raise ValueError("must hold an object with 'name' and 'rules', and nothing else")
    name, rules = body.get("name", "sub"), body.get("rules")
    if not isinstance(name, str) or not name:
        raise ValueError(f"name: found {name!r}; it must be the name of a claim")
    if not isinstance(rules, list) or not rules:
        raise ValueError("rules: must be a list of at least one rule")
    return Rules(name, tuple(_rule(f"rules[{i}]", rule) for i, rule in enumerate(rules)))


def _rule(path: str, body: object) -> Rule:
    if not isinstance(body, dict):
        raise ValueError(f"{path}: must be an object of {', '.join(sorted(_FIELDS))}")
    if unknown := sorted(map(str, body.keys() - _FIELDS)):
        allowed = ", ".join(sorted(_FIELDS))
        raise ValueError(f"{path}.{unknown[0]}: unknown; allowed are {allowed}")
    for name in ("claim", "has", "role"):
        if not isinstance(body.get(name), str) or not body[name]:
            raise ValueError(f"{path}.{name}: found {body.get(name)!r}; it must be a text")
    roles = [role.value for role in Role if role is not Role.AGENT]
    if body["role"] not in roles:
        raise ValueError(f"{path}.role: found '{body['role']}'; allowed are {', '.join(roles)}")
    namespaces = body.get("namespaces")
    if namespaces is None:
        return Rule(body["claim"], body["has"], Role(body["role"]))
    if not isinstance(namespaces, list) or not all(isinstance(n, str) and n for n in namespaces):
        raise ValueError(f"{path}.namespaces: must be a list of names; without it, all are meant")
    if body["role"] == Role.ADMIN:
        raise ValueError(f"{path}.namespaces: an admin reaches all of them; leave it out")
    return Rule(body["claim"], body["has"], Role(body["role"]), frozenset(namespaces))


def _value(claims: Mapping[str, object], name: str) -> object:
    if name in claims:
        return claims[name]
    found: object = claims
    for part in name.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(part)
    return found
