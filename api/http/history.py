"""Figures over time."""

from typing import Annotated

from fastapi import Query

from api.http import example_polling as examples
from api.http.answers import Json, answers
from api.http.routing import Served, make_router
from api.schemas.polling import SeriesAnswer
from api.store.series import Point, read

router = make_router("cluster")

SPAN_S_MAX = 2 * 365 * 86_400

NAMES_PATTERN = r"^[A-Za-z0-9_.-]{1,80}(,[A-Za-z0-9_.-]{1,80}){0,63}$"


@router.get(
    "/v1/series",
    summary="Figures over time",
    responses=answers(SeriesAnswer, examples.SERIES, 422, says="Points, the oldest first."),
)
def read_series(
    service: Served,
    span_s: Annotated[
        int, Query(ge=60, le=SPAN_S_MAX, description="So far back; the finest points kept so long.")
    ] = 3_600,
    names: Annotated[
        str | None,
        Query(pattern=NAMES_PATTERN, max_length=4_000, description="With commas; all by default."),
    ] = None,
) -> Json:
    """Use, waits, fragmentation and faults, noted every 15 s and thinned with age.

    Points of 15 s are kept for two hours, of a minute for two days, of ten minutes for two weeks,
    of an hour for two years. The answer has the finest ones that reach back so far, at most 2,000.
    """
    found = read(
        service.database,
        span_s=span_s,
        now_s=service.clock.now_s(),
        names=names.split(",") if names else (),
    )
    return Json(
        {
            "step_s": found.step_s,
            "times": list(found.times),
            "series": {
                name: {
                    "mean": [None if p is None else _round(p[1] / p[0]) for p in points],
                    "low": [_part(p, 2) for p in points],
                    "high": [_part(p, 3) for p in points],
                }
                for name, points in found.points.items()
            },
        }
    )


def _part(point: Point | None, part: int) -> float | None:
    return None if point is None else _round(point[part])


def _round(value: float) -> float:
    """Six digits are more than anybody sees, and half the bytes."""
    return float(f"{value:.6g}")
