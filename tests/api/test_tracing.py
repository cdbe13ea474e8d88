"""Traces: spans of requests, cycles, commits and messages, and nothing while they are off."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from api.clock import ManualClock
from api.loop.runner import Runner
from api.store.engine import Database
from api.tracing import TracingError, traced, tracing
from tests.api.http.contract import Contract
from tests.api.http.yard import Yard
from tests.api.loop.turns import settle
from tests.api.store.build import NOW_S

TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    tracing.start("http://127.0.0.1:1/v1/traces", exporter)
    yield exporter
    tracing.stop()


def named(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name == name]


def test_request_has_a_span_in_the_trace_of_its_caller(
    yard: Yard, spans: InMemorySpanExporter
) -> None:
    header = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    assert yard.call("GET", "/v1/nodes", headers=header).status_code == 200
    assert yard.call("GET", "/v1/nodes/nope", headers={"traceparent": "\x01"}).status_code == 404
    first, second = named(spans, "GET")
    assert first.attributes is not None
    assert first.attributes["http.route"] == "/v1/nodes"
    assert first.attributes["http.response.status_code"] == 200
    assert f"{first.context.trace_id:032x}" == TRACE
    assert second.attributes is not None
    assert second.attributes["http.response.status_code"] == 404
    assert f"{second.context.trace_id:032x}" != TRACE


def test_cycle_has_spans_of_its_decision_and_its_commit(
    database: Database, contract: Contract, spans: InMemorySpanExporter
) -> None:
    clock = ManualClock(NOW_S)
    runner = Runner(database, clock)
    with Yard(database, contract, clock) as yard:
        yard.load()
        yard.submit("j", parallelism={"tp": 8})
        settle(runner)
    runner.stop()
    (commit,) = [s for s in named(spans, "commit") if (s.attributes or {}).get("pods") == 1]
    cycles = {span.context.span_id for span in named(spans, "cycle")}
    assert commit.parent is not None
    assert commit.parent.span_id in cycles
    assert all(s.parent and s.parent.span_id in cycles for s in named(spans, "decide"))


def test_span_of_what_fails_says_so(spans: InMemorySpanExporter) -> None:
    with pytest.raises(ValueError, match="no"), tracing.span("work", size=3):
        raise ValueError("no")
    (span,) = named(spans, "work")
    assert not span.status.is_ok
    assert span.attributes == {"size": 3}


def test_nothing_is_imported_while_traces_are_off() -> None:
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, api.command, api.main; from api.tracing import tracing\n"
            "with tracing.span('x') as s: s.set_attribute('a', 1)\n"
            "print([m for m in sys.modules if m.startswith(('opentelemetry.sdk', "
            "'opentelemetry.exporter'))])",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "[]\n"


def test_traces_reach_a_collector(spans: InMemorySpanExporter) -> None:
    """Over HTTP, in the exporter's own form, when the process ends."""
    from tests.client.fake_server import Answer, FakeServer

    tracing.stop()
    with FakeServer() as collector:
        collector.replies["POST", "/v1/traces"] = Answer("", content_type="application/x-protobuf")
        tracing.start(f"{collector.url}/v1/traces")
        with tracing.span("work"):
            pass
        tracing.stop()
        (request,) = collector.asked("POST", "/v1/traces")
    assert request.headers["content-type"] == "application/x-protobuf"
    assert request.body


def test_wrong_endpoint_is_told_at_the_start() -> None:
    said = r"PODYARD_OTEL_ENDPOINT is 'collector:4318'"
    with pytest.raises(TracingError, match=said), traced("collector:4318"):
        pytest.fail("it began")
    with traced(""):
        assert not tracing.is_on
