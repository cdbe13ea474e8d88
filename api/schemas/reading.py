"""Bodies to models, with every problem named by its path; and values to bodies."""

import difflib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema
from pydantic_core import to_json

from api.schemas.common import PATTERN_WORDS
from scheduler.errors import Problem, SchedulerError

ModelT = TypeVar("ModelT", bound=BaseModel)

PROBLEMS_MAX = 10_000
"""Listing more of them would cost far more memory than the body that has them."""

INLINE_BYTES = 32_768
"""Longer bodies are read in a thread: the loop would stand still for other requests meanwhile."""

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")

_WANTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of at most 19 digits",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_parsing": "true or false",
    "finite_number": "a finite number",
    "string_type": "a text",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}
_MARKS = ("[key]", "[number]", "[object]")
"""What a path has beside fields: a key of a mapping, which kind of value a field was read as."""

_LIMITS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("above", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("below", "lt"),
}


class MalformedBody(SchedulerError):
    """A body that is not JSON (or YAML, where that is taken)."""


class InvalidFields(SchedulerError):
    """A body or a parameter whose fields are not as they should be."""


def read_json(model: type[ModelT], body: bytes) -> ModelT:
    """Read a body.

    Raises:
        MalformedBody: If it is not JSON in UTF-8, is nested too deeply or names a key twice.
        InvalidFields: With a problem for every field that is wrong.
    """
    try:
        found = model.model_validate_json(body)
    except ValidationError as error:
        raise _as_problems(error, model, body) from None
    _refuse_double_keys(body)
    return found


def seconds_of(path: str, time: str) -> float:
    """Unix seconds of a time in RFC 3339.

    Raises:
        InvalidFields: If there is no such time, as on the 30th of February.
    """
    try:
        return datetime.fromisoformat(time).timestamp()
    except (ValueError, OverflowError):
        raise InvalidFields(
            Problem(path, f"found {shown(time)}; there is no such time in the calendar")
        ) from None


def write_json(value: object) -> bytes:
    """A body of plain values, compact; NaN cannot be said in JSON and becomes null."""
    return to_json(value, inf_nan_mode="null")


def json_schemas(models: Sequence[type[BaseModel]], template: str) -> dict[str, dict[str, object]]:
    """JSON schemas of models and of all they use, by name."""
    _, found = models_json_schema([(m, "validation") for m in models], ref_template=template)
    return dict(found.get("$defs", {}))


def path_of(location: Sequence[object]) -> str:
    """`("roles", 0, "min")` -> `roles[0].min`."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif _PLAIN_KEY.match(text := str(part)):
            path += f".{text}" if path else text
        else:
            path += f"['{_shortened(text)}']"
    return path


def shown(value: object) -> str:
    """What was found, short enough for a message."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return f"'{_shortened(value)}'"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, float) and not math.isfinite(value):
        return "a number beyond all limits or none at all"
    return _shortened(str(value))


def field_problems(
    errors: Sequence[Mapping[str, object]], model: type[BaseModel] | None
) -> Iterator[Problem]:
    """Pydantic's errors in our words; `model` lets unknown fields name the known ones."""
    for error in errors:
        location = error["loc"]
        parts = [p for p in location if p not in _MARKS] if isinstance(location, tuple) else []
        yield Problem(path_of(parts), _message(error, parts, model))


def _as_problems(
    error: ValidationError, model: type[BaseModel], body: bytes
) -> MalformedBody | InvalidFields:
    if error.error_count() > PROBLEMS_MAX:
        return InvalidFields(Problem("", f"{error.error_count()} problems, too many to list"))
    errors = error.errors(include_url=False)
    if errors[0]["type"] == "json_invalid":
        return MalformedBody(Problem("", _syntax(str(errors[0]["ctx"]["error"]), body)))
    return InvalidFields(field_problems([dict(e) for e in errors], model))


def _syntax(complaint: str, body: bytes) -> str:
    if not body.strip():
        return "the body is empty; a JSON object is expected"
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return f"the body is not JSON: byte {error.start} is not valid UTF-8"
    return f"the body is not JSON: {complaint}"


def _message(
    error: Mapping[str, object], parts: Sequence[object], model: type[BaseModel] | None
) -> str:
    kind, context = str(error["type"]), error.get("ctx")
    ctx = context if isinstance(context, dict) else {}
    found = shown(error.get("input"))
    if kind == "missing":
        return "is required and was not given"
    if kind == "extra_forbidden":
        return _unknown_field(parts, model)
    if kind in _WANTED:
        return f"found {found}; it must be {_WANTED[kind]}"
    if kind in _LIMITS:
        words, key = _LIMITS[kind]
        return f"found {found}; it must be {words} {ctx[key]:.15g}"
    if kind in {"enum", "literal_error"}:
        return f"found {found}; allowed are {ctx['expected']}"
    if kind == "string_pattern_mismatch":
        return f"found {found}; {PATTERN_WORDS.get(ctx['pattern'], 'it has the wrong form')}"
    if kind == "string_too_long":
        return f"found a text that is too long; at most {ctx['max_length']} characters are allowed"
    if kind == "too_long":
        return f"has too many entries; at most {ctx['max_length']} are allowed"
    if kind == "too_short":
        return f"has too few entries; at least {ctx['min_length']} are needed"
    return f"found {found}; {str(error.get('msg', '')).removeprefix('Input ')}"


def _unknown_field(parts: Sequence[object], model: type[BaseModel] | None) -> str:
    known = sorted(_fields_at(model, parts[:-1])) if model else []
    if not known:
        return "unknown field"
    close = difflib.get_close_matches(str(parts[-1])[:80], known, n=1)
    hint = f"did you mean '{close[0]}'? " if close else ""
    return f"unknown field; {hint}allowed are {', '.join(known)}"


def _fields_at(model: type[BaseModel], parts: Sequence[object]) -> list[str]:
    """Names of the fields of the model that sits at a path."""
    current: type[BaseModel] | None = model
    for part in parts:
        if isinstance(part, str) and current is not None:
            field = current.model_fields.get(part)
            current = _model_in(field.annotation) if field else None
    return list(current.model_fields) if current else []


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((m for a in get_args(annotation) if (m := _model_in(a))), None)


def _refuse_double_keys(body: bytes) -> None:
    """JSON leaves open which of two equal keys counts, so neither does."""

    def check(pairs: list[tuple[str, object]]) -> None:
        keys = [key for key, _ in pairs]
        if len(set(keys)) != len(keys):
            double = next(k for i, k in enumerate(keys) if k in keys[:i])
            raise MalformedBody(Problem(_shortened(double), "is given twice in one object"))

    json.loads(body, object_pairs_hook=check)


def _shortened(text: str) -> str:
    printable = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:81])
    return printable if len(text) <= 80 else printable[:77] + "..."
