"""Requests that the API's description makes up, right and wrong ones: never a 5xx."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import Case
from schemathesis.generation import GenerationMode
from schemathesis.openapi.loaders import from_dict

from tests.api.http.contract import description
from tests.api.http.yard import Yard

CALM = settings(
    max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
THOROUGH = settings(CALM, max_examples=100, derandomize=False)

SCHEMA = from_dict(dict(description()))


def operations() -> Iterator[tuple[str, str]]:
    for path, methods in description()["paths"].items():
        for method in methods:
            yield path, method


def cases(path: str, method: str) -> st.SearchStrategy[Case[Any]]:
    operation = SCHEMA[path][method]
    return st.one_of(
        operation.as_strategy(generation_mode=GenerationMode.POSITIVE),
        operation.as_strategy(generation_mode=GenerationMode.NEGATIVE),
    )


def check(case: Case[Any], yard: Yard) -> None:
    """Send a request; the answer must be one that is described."""
    if case.query:
        case.query.pop("wait", None)  # it may wait, as asked, for half a minute
    if case.path == "/v1/watch":
        yard.app.service.feed.closing.set()  # else a stream would have no end
    sent = case.as_transport_kwargs(base_url="http://127.0.0.1:8080")
    sent.pop("cookies", None)
    if "data" in sent:
        sent["content"] = sent.pop("data")
    if sent.pop("files", None) or not isinstance(sent.get("content"), (bytes, str, type(None))):
        return  # a form, which no path takes
    answer = yard.client.request(**sent)
    assert answer.status_code < 500, f"{sent}: {answer.text[:300]}"
    yard.contract.check(case.method, answer.request.url.raw_path.decode(), answer)


@pytest.mark.parametrize(("path", "method"), list(operations()))
def test_no_request_makes_the_service_fail(any_yard: Yard, path: str, method: str) -> None:
    @CALM
    @given(cases(path, method))
    def send(case: Case[Any]) -> None:
        check(case, any_yard)

    send()


@pytest.mark.slow
@pytest.mark.parametrize(("path", "method"), list(operations()))
def test_none_of_very_many_requests_makes_the_service_fail(
    yard: Yard, path: str, method: str
) -> None:
    yard.load()

    @THOROUGH
    @given(cases(path, method))
    def send(case: Case[Any]) -> None:
        check(case, yard)

    send()
