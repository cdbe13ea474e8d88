"""Every answer that a test gets is checked against the API's own description."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import httpx2
from fastapi import FastAPI
from jsonschema import Draft202012Validator

from api.http.openapi import describe
from api.routes import ROUTES


@cache
def description() -> Mapping[str, Any]:
    """What `/openapi.json` serves, made without a service."""
    return describe(FastAPI(routes=list(ROUTES)))()


class Contract:
    """The description of one app."""

    def __init__(self, described: Mapping[str, Any]) -> None:
        self.described = described
        self._paths = [
            (re.compile("^" + re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)) + "$"), path)
            for path in described["paths"]
        ]
        self._validator = cache(self._make_validator)

    def check(self, method: str, path: str, answer: httpx2.Response) -> None:
        """Fail when the status, the content type or the body is not as described."""
        operation = self.operation(method, path)
        if operation is None:
            assert answer.status_code in {400, 403, 404, 405, 413, 421}, answer.text
            return
        documented = operation["responses"].get(str(answer.status_code))
        if documented is None:
            # What the router and the guard answer is the same for all paths, described once.
            assert answer.status_code in {400, 403, 404, 405, 413, 421, 422}, answer.text
            return
        kind = answer.headers["content-type"].partition(";")[0]
        contents = {k.partition(";")[0]: v for k, v in documented["content"].items()}
        assert kind in contents, f"{method} {path} answered {kind}"
        if kind.endswith("json"):
            self.validate(answer.json(), contents[kind]["schema"])

    def operation(self, method: str, path: str) -> Mapping[str, Any] | None:
        path = path.partition("?")[0]
        for pattern, template in self._paths:
            if pattern.match(path):
                found: Mapping[str, Any] | None = self.described["paths"][template].get(
                    method.lower()
                )
                return found
        return None

    def validate(self, value: object, schema: Mapping[str, Any]) -> None:
        """Fail when a value is not of a schema of the description."""
        self._validator(repr(schema), _Same(schema)).validate(value)

    def _make_validator(self, _: str, schema: "_Same") -> Draft202012Validator:
        whole = dict(schema.value) | {"components": self.described["components"]}
        return Draft202012Validator(whole)


class _Same:
    """A schema that counts as equal to any other, so that only its text is the cache's key."""

    def __init__(self, value: Mapping[str, Any]) -> None:
        self.value = value

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same)
