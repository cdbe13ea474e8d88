"""What becomes of a request that runs into a fault of the service."""

import httpx2
import pytest
from starlette.requests import ClientDisconnect
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send
from structlog.testing import capture_logs

from api.http import observe
from api.http.observe import Observe
from api.log import get_logger
from api.metrics import Metrics


def failing(error: Exception, *, after: int = 0) -> ASGIApp:
    """An app that sends so many messages of its answer and then fails."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if after:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise error

    return app


def ask(app: ASGIApp, metrics: Metrics | None = None) -> httpx2.Response:
    client = TestClient(Observe(app, metrics=metrics or Metrics()), raise_server_exceptions=False)
    return client.get("/v1/jobs")


@pytest.fixture(autouse=True)
def fresh_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that nobody has used: one that was used keeps where it wrote to."""
    monkeypatch.setattr(observe, "log", get_logger(observe.__name__))


def test_fault_is_answered_without_its_details_and_logged_with_them() -> None:
    with capture_logs() as logs:
        answer = ask(failing(RuntimeError("the password is x")))
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "password" not in answer.text
    assert [line["log_level"] for line in logs if line["event"] == "request_failed"] == ["error"]


def test_silent_database_is_answered_with_503_and_when_to_try_again() -> None:
    with capture_logs() as logs:
        answer = ask(failing(TimeoutError("QueuePool limit reached")))
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert [line["log_level"] for line in logs if line["event"] == "request_refused"] == ["warning"]


def test_request_that_its_sender_left_is_no_fault() -> None:
    with capture_logs() as logs:
        ask(failing(ClientDisconnect()))
    assert not [line for line in logs if line["event"] == "request_failed"]


def test_failed_requests_are_measured_by_status() -> None:
    metrics = Metrics()
    with capture_logs():
        ask(failing(RuntimeError()), metrics)
    count = metrics.registry.get_sample_value(
        "podyard_http_request_duration_seconds_count",
        {"method": "GET", "route": "none", "status": "500"},
    )
    assert count == 1.0
