"""Tables: what `kubectl get` prints, made by the server."""

import math
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from api.k8s.kinds import Column, Kind, Obj

Cells = Callable[[Obj, float], list[object]]

METADATA, OBJECT, NONE = "Metadata", "Object", "None"
INCLUDES = (METADATA, OBJECT, NONE)


def table(
    kind: Kind, cells: Cells, objects: Sequence[Obj], metadata: Obj, *, include: str, now_s: float
) -> Obj:
    """A `Table` of objects.

    Args:
        metadata: Of the list; of one object only its resourceVersion.
        include: What of each object goes along, one of `INCLUDES`.
    """
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [_column(column) for column in kind.columns],
        "rows": [
            {"cells": cells(obj, now_s)}
            | ({} if include == NONE else {"object": _included(obj, include)})
            for obj in objects
        ],
    }


def partial(obj: Obj) -> Obj:
    """An object's metadata alone."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj["metadata"],
    }


def age(time: str | None, now_s: float) -> str:
    """Time since a moment as `kubectl` prints it; `<unknown>` of none."""
    if not time:
        return "<unknown>"
    return duration(now_s - datetime.fromisoformat(time).timestamp())


def duration(seconds: float) -> str:
    """A time span in two units at most, as Kubernetes' `HumanDuration`."""
    if seconds < -1:
        return "<invalid>"
    whole = max(0, math.floor(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 365 * 8:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, unit: str, small: int, below: str) -> str:
    return f"{large}{unit}{small}{below}" if small else f"{large}{unit}"


def _column(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _included(obj: Obj, include: str) -> Obj:
    return obj if include == OBJECT else partial(obj)
