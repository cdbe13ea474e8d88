"""The policy: what operators tune while the service runs."""

from collections.abc import Mapping
from dataclasses import asdict

import sqlalchemy as sa
from sqlalchemy import Connection, ScalarSelect

from api.store.bulk import upsert_rows
from api.store.engine import Database
from api.store.jsontext import dump_json, load_dict
from api.store.tables import policy
from scheduler.errors import Problem
from scheduler.policy import POLICY_FIELDS, Policy, PolicyError


def get_policy(db: Database) -> dict[str, object]:
    """Every field of `Policy` by name."""
    return asdict(load_policy(db))


def load_policy(db: Database) -> Policy:
    """The policy in force; defaults where nothing was set."""
    with db.read() as connection:
        return read_policy(connection)


def read_policy(connection: Connection) -> Policy:
    """The same on a connection that is open already."""
    return parse_policy(connection.execute(sa.select(policy_body())).scalar_one())


def policy_body() -> ScalarSelect[str | None]:
    """The stored text, NULL where nothing was set."""
    return sa.select(policy.c.body).scalar_subquery()


def parse_policy(text: str | None) -> Policy:
    """A stored policy; defaults where nothing was set."""
    if text is None:
        return Policy()
    # A field that a later version dropped is no reason not to start.
    return _policy_of({k: v for k, v in load_dict(text).items() if k in POLICY_FIELDS})


def put_policy(db: Database, body: dict[str, object], *, now_s: float) -> dict[str, object]:
    """Replace the policy; fields that are left out take their defaults.

    Raises:
        PolicyError: With a problem for each field that is unknown, ill-typed or out of range.
    """
    _check_known(body)
    wanted = _policy_of(body)
    with db.write(now_s) as tx:
        if wanted != read_policy(tx.connection):
            revision = tx.emit(
                "policy.changed",
                subject_kind="policy",
                message="the policy changed",
                body=asdict(wanted),
            )
            row = {"id": 1, "body": dump_json(asdict(wanted)), "revision": revision}
            upsert_rows(tx.connection, policy, [row])
    return asdict(wanted)


def changed_policy(before: Policy, changes: Mapping[str, object]) -> Policy:
    """A policy with some fields changed.

    Raises:
        PolicyError: As `put_policy`.
    """
    _check_known(changes)
    return _policy_of(asdict(before) | dict(changes))


def _check_known(body: Mapping[str, object]) -> None:
    unknown = sorted(set(body) - set(POLICY_FIELDS))
    if unknown:
        allowed = ", ".join(POLICY_FIELDS)
        raise PolicyError(
            Problem(name, f"there is no such field; allowed are {allowed}") for name in unknown
        )


def _policy_of(body: dict[str, object]) -> Policy:
    defaults = asdict(Policy())
    problems = [
        Problem(name, f"found {value!r}; it must be of the kind of {defaults[name]!r}")
        for name, value in body.items()
        if not _is_alike(value, defaults[name])
    ]
    if problems:
        raise PolicyError(problems)
    fields = {n: _as_kept(v, defaults[n]) for n, v in body.items()}
    return Policy(**fields)  # type: ignore[arg-type]  # kinds were checked against the defaults


def _as_kept(value: object, default: object) -> object:
    """A value of JSON as the policy has it."""
    if isinstance(value, int) and isinstance(default, float):
        return float(value)
    return tuple(value) if isinstance(value, list) else value


def _is_alike(value: object, default: object) -> bool:
    if isinstance(default, tuple):
        return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
    if isinstance(default, float):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is type(default)
