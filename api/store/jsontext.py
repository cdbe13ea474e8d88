"""JSON as the tables keep it: compact text, keys in the order given."""

import json


def dump_json(value: object) -> str:
    """Compact ASCII text, which any database takes; refuses NaN and infinities."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def load_dict(text: str) -> dict[str, object]:
    """A JSON object that `dump_json` wrote."""
    value = json.loads(text)
    if not isinstance(value, dict):
        raise TypeError(f"expected a JSON object, found {type(value).__name__}")
    return value


def load_list(text: str) -> list[object]:
    """A JSON array that `dump_json` wrote."""
    value = json.loads(text)
    if not isinstance(value, list):
        raise TypeError(f"expected a JSON array, found {type(value).__name__}")
    return value
