"""Idempotency keys: what each of a caller's keys made, for a day."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.bulk import among, upsert_rows
from api.store.errors import Conflict
from api.store.events import IDEMPOTENCY_S
from api.store.tables import idempotency
from api.store.views import IdempotencyKey

Place = tuple[str, str, str]
"""Caller, namespace, key."""


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """Those of some keys that are remembered: hash of the body and uid of the job."""

    found: dict[Place, tuple[str, str]] = field(default_factory=dict)

    def note(self, key: IdempotencyKey, uid: str) -> None:
        """Know of what was made since: the same request may come twice in one transaction."""
        self.found[_place(key)] = (key.body_hash, uid)

    def job_of(self, key: IdempotencyKey) -> str | None:
        """Uid of the job that an earlier request under this key was about.

        Raises:
            Conflict: If that request had another body.
        """
        found = self.found.get(_place(key))
        if found is None:
            return None
        body_hash, uid = found
        if body_hash != key.body_hash:
            raise Conflict(
                "Idempotency-Key",
                f"key '{key.key}' was used for another body within 24 h; use a new key for a new "
                "job",
            )
        return uid


def known_keys(
    connection: Connection, asked: Iterable[IdempotencyKey | None], *, now_s: float
) -> KnownKeys:
    """Look up keys that were used within the last day; None = without a key."""
    keys = [key for key in asked if key is not None]
    if not keys:
        return KnownKeys()
    query = sa.select(idempotency).where(
        among(connection, idempotency.c.caller, sorted({key.caller for key in keys})),
        among(connection, idempotency.c.namespace, sorted({key.namespace for key in keys})),
        among(connection, idempotency.c.key, [key.key for key in keys]),
        idempotency.c.at > now_s - IDEMPOTENCY_S,
    )
    return KnownKeys(
        {
            (row.caller, row.namespace, row.key): (row.body_hash, row.job_uid)
            for row in connection.execute(query)
        }
    )


def key_row(key: IdempotencyKey, uid: str, now_s: float) -> dict[str, object]:
    """A row for `remember`."""
    return {
        "caller": key.caller,
        "namespace": key.namespace,
        "key": key.key,
        "body_hash": key.body_hash,
        "job_uid": uid,
        "at": now_s,
    }


def remember(connection: Connection, rows: Sequence[Mapping[str, object]]) -> None:
    """Keep keys for a day from now; one that is over is used anew."""
    upsert_rows(connection, idempotency, rows)


def _place(key: IdempotencyKey) -> Place:
    return key.caller, key.namespace, key.key
