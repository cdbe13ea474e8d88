"""The reference of the HTTP API as a page, made from its own description."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.api.http.contract import description

Schema = Mapping[str, Any]

HEAD = """\
# HTTP API

Made from the service's own description by `make reference`; the service serves it, with an example
for every call, at `/docs` for reading and `/openapi.json` for programs. How lists, errors and
idempotency work is in [Running the service](running.md) and [The Python client](python-client.md).

"""
USUAL = {"401", "403", "429", "503", "400", "413", "415", "422"}
"""Statuses that nearly every call may answer; told once."""


def api_page() -> str:
    """The whole page."""
    return HEAD + "\n".join(_lines(description())).rstrip() + "\n"


def _lines(described: Mapping[str, Any]) -> Iterator[str]:
    yield _one_line(described["info"]["description"])
    yield ""
    yield (
        "Beside what is listed, any call may answer 400, 413, 415 or 422 for a request that is "
        "wrong, 401, 403 or 429 for who asks, and 503 while the database is away."
    )
    for tag in described["tags"]:
        yield f"\n## {tag['name'].capitalize()}\n"
        yield tag["description"]
        for path, methods in described["paths"].items():
            for method, operation in methods.items():
                if (operation.get("tags") or [""])[0] == tag["name"]:
                    yield from _operation(method.upper(), path, operation)
    yield "\n## Bodies\n"
    yield "Fields without a default are required in requests. `T?` may be null."
    for name, schema in sorted(described["components"]["schemas"].items()):
        yield from _schema(name, schema)


def _operation(method: str, path: str, operation: Schema) -> Iterator[str]:
    yield f"\n### `{method} {path}`\n"
    said = _one_line(operation.get("description", ""))
    yield f"**{operation.get('summary', '')}.** {said}".rstrip()
    rows = [_parameter(p) for p in operation.get("parameters", []) if p["in"] in {"query", "path"}]
    if rows:
        yield ""
        yield from rows
    body = operation.get("requestBody", {}).get("content", {})
    for kind, content in list(body.items())[:1]:
        yield f"\nBody: {_type(content.get('schema', {}))} (`{kind}`)"
    answers = [
        f"{status} {_answer(answer)}".rstrip()
        for status, answer in sorted(operation.get("responses", {}).items())
        if status not in USUAL
    ]
    yield f"\nAnswers: {'; '.join(answers)}"


def _parameter(parameter: Schema) -> str:
    schema = parameter.get("schema", {})
    where = "" if parameter["in"] == "query" else ", in the path"
    said = _one_line(parameter.get("description") or "")
    default = _default(schema)
    return f"- `{parameter['name']}` {_type(schema)}{default}{where}" + (
        f": {said}" if said else ""
    )


def _answer(answer: Schema) -> str:
    for content in answer.get("content", {}).values():
        return _type(content.get("schema", {}))
    return _one_line(answer.get("description", ""))


def _schema(name: str, schema: Schema) -> Iterator[str]:
    yield f"\n### {name}\n"
    if said := _one_line(schema.get("description", "")):
        yield said + "\n"
    properties = schema.get("properties")
    if not properties:
        yield f"{_type({k: v for k, v in schema.items() if k != 'title'})}"
        return
    required = set(schema.get("required", ()))
    for field, what in properties.items():
        default = "" if field in required else _default(what)
        said = _one_line(what.get("description", ""))
        yield f"- `{field}` {_type(what)}{default}" + (f": {said}" if said else "")


def _type(schema: Schema) -> str:
    """A schema in a few words; one of the page's own is a link."""
    if ref := schema.get("$ref"):
        name = str(ref).rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        kinds = [c for c in choices if c.get("type") != "null"]
        text = " or ".join(dict.fromkeys(_type(c) for c in kinds))
        return text + ("?" if len(kinds) < len(choices) else "")
    if values := schema.get("enum"):
        return " ".join(f"`{value}`" for value in values)
    if "const" in schema:
        return f"`{schema['const']}`"
    match schema.get("type"):
        case "array":
            return f"list of {_type(schema.get('items', {}))}"
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return f"map of {_type(schema['additionalProperties'])}"
        case None:
            return "any"
        case kind:
            return f"{kind}{_bounds(schema)}"


def _bounds(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    above = schema.get("exclusiveMinimum")
    if low is None and high is None and above is None:
        return ""
    start = f"> {above:g}" if above is not None else (f"{low:g}" if low is not None else "")
    return f" ({start}..{high:g})" if high is not None else f" ({start}..)"


def _default(schema: Schema) -> str:
    if "default" not in schema or schema["default"] is None:
        return ""
    return f" = `{json.dumps(schema['default'])}`"


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
