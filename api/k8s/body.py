"""Reading bodies: JSON, YAML and a little protobuf, into plain values that are safe to keep."""

import json
from collections.abc import Sequence
from email.message import Message
from typing import Any

from api.k8s import protobuf
from api.k8s.errors import StatusError, bad_request
from api.k8s.kinds import Obj
from scheduler.errors import InventoryError
from scheduler.importers import yaml_text

JSON = "application/json"
YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")
OBJECT_TYPES = (JSON, *YAML_TYPES, protobuf.MEDIA_TYPE)

DEPTH_MAX = 64
"""Levels of nesting; manifests of Kubernetes' own kinds have about 15."""

VALUES_MAX = 200_000
"""Values of one body, those behind YAML aliases counted each time."""

INT_MAX = 2**63 - 1


def media_type(said: str) -> str:
    """A content type without parameters, in lower case."""
    message = Message()
    message["content-type"] = said
    return message.get_content_type() if said else ""


def read_object(body: bytes, said: str) -> tuple[Obj, list[str]]:
    """The object of a body, and fields that it gives twice.

    Raises:
        StatusError: 400 if it cannot be read, 415 if its type is none of `OBJECT_TYPES`.
    """
    kind = media_type(said)
    if kind == protobuf.MEDIA_TYPE:
        return protobuf.decode(body), []
    if kind not in ("", *OBJECT_TYPES):
        raise wrong_type(said, OBJECT_TYPES)
    # Without a type it may be either; YAML is a superset of JSON, and JSON is read much faster.
    if kind == JSON or body.lstrip()[:1] == b"{":
        value, doubles = read_json(body)
    else:
        value, doubles = _read_yaml(body), []
    if not isinstance(value, dict):
        raise bad_request(f"the body is {_what(value)}; an object is expected")
    return value, doubles


def wrong_type(said: str, allowed: Sequence[str]) -> StatusError:
    return StatusError(
        415,
        f"the body of the request was in an unknown format ({said[:80] or 'none given'}) - "
        f"accepted media types include: {', '.join(allowed)}",
    )


def read_json(body: bytes) -> tuple[Any, list[str]]:
    """A JSON value, and keys that one object gives twice.

    Raises:
        StatusError: 400 if it is not JSON, is nested too deeply or has numbers beyond 64 bits.
    """
    doubles: list[str] = []

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(found)
        if len(made) != len(found):
            seen: set[str] = set()
            doubles.extend(k for k, _ in found if k in seen or seen.add(k))  # type: ignore[func-returns-value]  # add gives None
        return made

    try:
        value = json.loads(body, object_pairs_hook=pairs, parse_constant=_no_constant)
    except RecursionError:
        raise bad_request(_TOO_DEEP) from None
    except (ValueError, UnicodeError) as error:
        raise bad_request(f"the body is not JSON: {str(error)[:200]}") from None
    check_values(value)
    return value, doubles


def _read_yaml(body: bytes) -> Any:  # noqa: ANN401  # any value of JSON
    if not body.strip():
        raise bad_request("the body is empty; an object is expected")
    try:
        value = yaml_text.read(body).value
    except InventoryError as error:
        raise bad_request(f"the body is not YAML: {str(error)[:300]}") from None
    except RecursionError:
        raise bad_request(_TOO_DEEP) from None
    check_values(value)
    return json.loads(json.dumps(value, default=str))


_TOO_DEEP = f"the body is nested too deeply; at most {DEPTH_MAX} levels are allowed"


def check_values(value: object) -> None:
    """Refuse what could not be kept or shown: too deep, too much, numbers beyond 64 bits.

    Raises:
        StatusError: 400.
    """
    count = 0
    left: list[tuple[object, int]] = [(value, 1)]
    while left:
        item, depth = left.pop()
        count += 1
        if depth > DEPTH_MAX:
            raise bad_request(_TOO_DEEP)
        if count > VALUES_MAX:
            raise bad_request(f"the body has more than {VALUES_MAX} values; that is not allowed")
        if isinstance(item, dict):
            left.extend((inner, depth + 1) for inner in item.values())
            left.extend((key, depth + 1) for key in item)
        elif isinstance(item, str):
            _check_text(item)
        elif isinstance(item, list):
            left.extend((inner, depth + 1) for inner in item)
        elif isinstance(item, int) and abs(item) > INT_MAX:
            raise bad_request("the body has a whole number beyond 64 bits; that is not allowed")
        elif isinstance(item, float) and not abs(item) < float("inf"):
            raise bad_request("the body has a number beyond all limits; that is not allowed")


def _check_text(text: str) -> None:
    """Half a character of UTF-16 can be written in JSON, and cannot be sent on."""
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError:
        raise bad_request("the body has a text that is not valid Unicode") from None


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not a number")


def _what(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return "null" if value is None else names.get(type(value), "a number")
