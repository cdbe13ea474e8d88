"""Serves the dashboard: plain files that a browser takes as they are, from this service alone."""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

PREFIX = "/dashboard/"
INDEX = "index.html"

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        # A name with markup in it could not become markup even if somebody wrote it as such.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)


@dataclass(frozen=True, slots=True)
class Static:
    """One file, ready to be sent."""

    content: bytes
    packed: bytes
    media_type: str
    etag: str


def read_static() -> dict[str, Static]:
    """All files of the dashboard by name."""
    found = sorted((files("api.dashboard") / "static").iterdir(), key=lambda file: file.name)
    return {file.name: _static(file.name, file.read_bytes()) for file in found if file.is_file()}


def _static(name: str, content: bytes) -> Static:
    media_type = MEDIA_TYPES["." + name.rpartition(".")[2]]
    etag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
    return Static(content, gzip.compress(content, mtime=0), media_type, etag)


def add_dashboard(app: Starlette) -> None:
    """Serve the page at `/`, and what it needs below `/dashboard/`."""
    there = read_static()

    async def page(request: Request) -> Response:
        return _sent(there[INDEX], request.headers)

    async def part(request: Request) -> Response:
        found = there.get(request.path_params["name"])
        if found is None:
            raise HTTPException(404)
        return _sent(found, request.headers)

    app.add_route("/", page, methods=["GET"], include_in_schema=False)
    app.add_route(PREFIX + "{name}", part, methods=["GET"], include_in_schema=False)


def _sent(file: Static, asked: Mapping[str, str]) -> Response:
    headers = {
        "ETag": file.etag,
        # Asked again each time, so that a new version is there at once; 304 as a rule.
        "Cache-Control": "no-cache",
        "Vary": "Accept-Encoding",
        "Content-Security-Policy": POLICY,
    }
    if file.etag in asked.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    content = file.content
    if "gzip" in asked.get("accept-encoding", ""):
        content = file.packed
        headers["Content-Encoding"] = "gzip"
    return Response(content, headers=headers, media_type=file.media_type)
