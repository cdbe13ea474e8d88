"""Figures over time, thinned with age: fine points for an hour, an hour's points for years."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.bulk import upsert_rows
from api.store.engine import Database
from api.store.tables_series import series

HOUR_S, DAY_S = 3_600, 86_400


@dataclass(frozen=True, slots=True)
class Tier:
    """Points of one width and how long they are kept."""

    step_s: int
    kept_s: int


TIERS = (
    Tier(15, 2 * HOUR_S),
    Tier(60, 2 * DAY_S),
    Tier(10 * 60, 14 * DAY_S),
    Tier(HOUR_S, 2 * 365 * DAY_S),
)
"""At most 480 + 2,880 + 2,016 + 17,520 rows of some 800 bytes; 20 MB after two years."""

POINTS_MAX = 2_000
"""Of one answer; of tiers with more the next coarser one is told."""

Point = tuple[int, float, float, float]
"""How many samples, their sum, the lowest, the highest."""


@dataclass(frozen=True, slots=True)
class Series:
    """Points of some figures.

    Attributes:
        step_s: Width of a point.
        times: Where each begins, Unix seconds, ascending.
        points: By name, one for each time; None where nothing was noted.
    """

    step_s: int
    times: tuple[int, ...]
    points: Mapping[str, tuple[Point | None, ...]]


def note(db: Database, figures: Mapping[str, float], *, now_s: float) -> None:
    """Add one sample to the point that it falls into, of every width; forget what is too old."""
    with db.write_quietly() as connection:
        for tier in TIERS:
            at = int(now_s) // tier.step_s * tier.step_s
            there = _read(connection, tier.step_s, at)
            for name, value in figures.items():
                there[name] = _with(there.get(name), value)
            row = {"step_s": tier.step_s, "at": at, "body": json.dumps(there)}
            upsert_rows(connection, series, [row])
        _forget(connection, now_s)


def read(db: Database, *, span_s: int, now_s: float, names: Sequence[str] = ()) -> Series:
    """The figures of the last seconds, as finely as they are kept for so long.

    Args:
        names: Those wanted; none = all.
    """
    tier = tier_for(span_s)
    query = (
        sa.select(series.c.at, series.c.body)
        .where(series.c.step_s == tier.step_s, series.c.at > now_s - span_s - tier.step_s)
        .order_by(series.c.at)
    )
    with db.read() as connection:
        rows = [(int(at), json.loads(body)) for at, body in connection.execute(query)]
    wanted = list(names) or sorted({name for _, body in rows for name in body})
    return Series(
        tier.step_s,
        tuple(at for at, _ in rows),
        {name: tuple(_point(body.get(name)) for _, body in rows) for name in wanted},
    )


def tier_for(span_s: int) -> Tier:
    """The finest tier that reaches so far back in not too many points."""
    for tier in TIERS:
        if tier.kept_s >= span_s and span_s / tier.step_s <= POINTS_MAX:
            return tier
    return TIERS[-1]


def _read(connection: Connection, step_s: int, at: int) -> dict[str, Point]:
    query = sa.select(series.c.body).where(series.c.step_s == step_s, series.c.at == at)
    body = connection.execute(query).scalar_one_or_none()
    return (
        {} if body is None else {n: (p[0], p[1], p[2], p[3]) for n, p in json.loads(body).items()}
    )


def _with(point: Point | None, value: float) -> Point:
    if point is None:
        return (1, value, value, value)
    count, total, low, high = point
    return (count + 1, total + value, min(low, value), max(high, value))


def _point(found: Sequence[float] | None) -> Point | None:
    return None if found is None else (int(found[0]), found[1], found[2], found[3])


def _forget(connection: Connection, now_s: float) -> None:
    for tier in TIERS:
        old = sa.and_(series.c.step_s == tier.step_s, series.c.at < int(now_s) - tier.kept_s)
        connection.execute(sa.delete(series).where(old))
