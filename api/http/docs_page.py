"""The API's description as one page: no script, nothing loaded from elsewhere."""

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; } pre { background: #8881; padding: .7rem; overflow-x: auto; }
details { border-top: 1px solid #8884; padding: .4rem 0; } summary { cursor: pointer; }
code b { display: inline-block; min-width: 4.2rem; }
td, th { text-align: left; padding: 0 1rem 0 0; }
:root { color-scheme: light dark; }
"""
_POLICY = (
    "default-src 'none'; frame-ancestors 'none'; style-src 'sha256-"
    + b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    + "'"
)


def add_docs_page(app: FastAPI) -> None:
    """Serve the page at `/docs`."""

    async def docs(_: Request) -> HTMLResponse:
        return HTMLResponse(
            "".join(_page(app.openapi())), headers={"content-security-policy": _POLICY}
        )

    app.add_route("/docs", docs, methods=["GET"], include_in_schema=False)


def _page(api: Mapping[str, Any]) -> Iterator[str]:
    title = escape(str(api["info"]["title"]))
    yield f"<!doctype html><html lang=en><meta charset=utf-8><title>{title} API</title>"
    yield f"<style>{_STYLE}</style><h1>{title} API</h1>"
    yield f"<p>{escape(str(api['info']['description']))}</p>"
    yield "<p>For programs: <a href=/openapi.json>openapi.json</a></p>"
    for tag in api["tags"]:
        yield f"<h2>{escape(tag['name'])}</h2><p>{escape(tag['description'])}</p>"
        for path, methods in api["paths"].items():
            for method, operation in methods.items():
                if tag["name"] in operation.get("tags", ()):
                    yield from _operation(path, method, operation)


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> Iterator[str]:
    name = escape(operation["operationId"])
    yield f"<details id={name}><summary><code><b>{method.upper()}</b> {escape(path)}</code> "
    yield f"{escape(operation.get('summary', ''))}</summary>"
    yield f"<p>{escape(operation.get('description', ''))}</p>"
    yield from _parameters(operation.get("parameters", ()))
    if body := operation.get("requestBody"):
        yield "<h4>Body</h4>"
        yield from _contents(body["content"])
    for status, answer in sorted(operation["responses"].items()):
        yield f"<h4>{escape(status)} {escape(answer.get('description', ''))}</h4>"
        yield from _contents(answer.get("content", {}))
    yield "</details>"


def _parameters(parameters: Any) -> Iterator[str]:  # noqa: ANN401 - JSON of any shape
    if not parameters:
        return
    yield "<table><tr><th>Parameter<th>In<th>Meaning"
    for one in parameters:
        schema = {k: v for k, v in one.get("schema", {}).items() if k != "title"}
        words = one.get("description") or json.dumps(schema)
        yield f"<tr><td><code>{escape(one['name'])}</code><td>{one['in']}<td>{escape(words)}"
    yield "</table>"


def _contents(contents: Mapping[str, Any]) -> Iterator[str]:
    shown: list[str] = []
    for kind, content in contents.items():
        examples = [e["value"] for e in content.get("examples", {}).values()]
        for example in examples or [content.get("example")]:
            text = example if isinstance(example, str) else json.dumps(example, indent=1)
            if text not in shown:
                shown.append(text)
                yield f"<p><code>{escape(kind)}</code></p><pre>{escape(text)}</pre>"
