"""Requests of Go programs: keys in any case, numbers of any size, nothing to be trusted."""

import math
from collections.abc import Mapping

from pydantic_core import from_json

from scheduler.errors import Problem, SchedulerError

AMOUNT_MAX = 2**53
"""Larger amounts stand for infinity."""

Tree = Mapping[str, object]


class MalformedRequest(SchedulerError):
    """A body that no scheduler sends."""


def read_tree(body: bytes) -> Tree:
    """The object of a body.

    Raises:
        MalformedRequest: If it is not JSON, or another value than an object.
    """
    try:
        found = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise MalformedRequest(Problem("", f"the body is not JSON: {str(error)[:200]}")) from None
    if not isinstance(found, dict):
        raise MalformedRequest(Problem("", "the body is no JSON object"))
    return found


def pick(value: object, name: str) -> object:
    """A field of an object, whatever the case of its name; None where there is none."""
    if not isinstance(value, Mapping):
        return None
    if name in value:
        return value[name]
    wanted = name.lower()
    return next((v for k, v in value.items() if str(k).lower() == wanted), None)


def tree_at(value: object, *names: str) -> Tree:
    """An object inside an object, empty where there is none."""
    for name in names:
        value = pick(value, name)
    return value if isinstance(value, Mapping) else {}


def list_at(value: object, name: str) -> list[object]:
    """A list inside an object, empty where there is none."""
    found = pick(value, name)
    return found if isinstance(found, list) else []


def text_at(value: object, name: str) -> str:
    """A text inside an object, "" where there is none."""
    found = pick(value, name)
    return found if isinstance(found, str) else ""


def number_at(value: object, name: str) -> float:
    """A number inside an object, 0 where there is none; no more than `AMOUNT_MAX`."""
    found = pick(value, name)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        return 0.0
    return float(max(-AMOUNT_MAX, min(found, AMOUNT_MAX)))


def required(value: object, *names: str) -> Tree:
    """An object that has to be there.

    Raises:
        MalformedRequest: If it is not.
    """
    found: object = value
    for name in names:
        found = pick(found, name)
    if not isinstance(found, Mapping):
        raise MalformedRequest(Problem(".".join(names), "is required and must be an object"))
    return found
