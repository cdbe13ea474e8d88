"""Traces for OpenTelemetry: spans of requests, cycles, commits and messages to hooks.

An extra (`pip install 'podyard[otel]'`), switched on by `PODYARD_OTEL_ENDPOINT`. While it is off
nothing of it is imported, and a span is one look at a name.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

Attribute: TypeAlias = str | int | float | bool

SERVICE = "podyard"
PARENT = b"traceparent"
"""W3C's header that says which trace a request belongs to."""

MISSING = (
    "PODYARD_OTEL_ENDPOINT is set, but OpenTelemetry is not installed: pip install 'podyard[otel]'"
)


class TracingError(Exception):
    """Traces cannot be made as it was asked for."""


class Span(Protocol):
    """What may be said of a span while it is open."""

    def set_attribute(self, key: str, value: Attribute) -> None: ...


class _Nothing:
    """Of a span that nobody wants."""

    def set_attribute(self, key: str, value: Attribute) -> None:
        """Nobody is told."""


_NOTHING = nullcontext[Span](_Nothing())


class Tracing:
    """Spans of one process.

    Attributes:
        provider: None while it is off.
    """

    def __init__(self) -> None:
        self.provider: TracerProvider | None = None

    @property
    def is_on(self) -> bool:
        return self.provider is not None

    def start(self, endpoint: str, exporter: "SpanExporter | None" = None) -> None:
        """Switch it on.

        Args:
            endpoint: Where spans are posted to: `http://collector:4318/v1/traces`.
            exporter: Instead of the one for that, in tests.

        Raises:
            TracingError: If OpenTelemetry is not installed, or that is no URL.
        """
        if not endpoint.startswith(("http://", "https://")):
            raise TracingError(
                f"PODYARD_OTEL_ENDPOINT is '{endpoint[:80]}', no http:// or https:// URL"
            )
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
        except ImportError as error:
            raise TracingError(MISSING) from error
        provider = TracerProvider(
            resource=Resource.create({"service.name": SERVICE}), shutdown_on_exit=False
        )
        if exporter is None:
            provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint)))
        else:
            provider.add_span_processor(SimpleSpanProcessor(exporter))
        self.provider = provider

    def stop(self) -> None:
        """Send what is left, and switch it off."""
        provider, self.provider = self.provider, None
        if provider is not None:
            provider.shutdown()

    def span(self, name: str, **attributes: Attribute) -> AbstractContextManager[Span]:
        """A span around what is done inside, below the one that is open; errors are noted."""
        if self.provider is None:
            return _NOTHING
        return self._open(name, attributes)

    def request(
        self, method: str, headers: Iterable[tuple[bytes, bytes]]
    ) -> AbstractContextManager[Span]:
        """A span of a request, in the trace of its caller if it names one."""
        if self.provider is None:
            return _NOTHING
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        parent = {PARENT.decode(): v.decode("latin-1") for name, v in headers if name == PARENT}
        context = TraceContextTextMapPropagator().extract(parent)
        attributes = {"http.request.method": method}
        return self._open(method, attributes, context=context, kind=SpanKind.SERVER)

    @contextmanager
    def _open(
        self, name: str, attributes: Mapping[str, Attribute], **more: object
    ) -> Iterator[Span]:
        provider = self.provider
        if provider is None:
            yield _Nothing()
            return
        tracer = provider.get_tracer(SERVICE)
        with tracer.start_as_current_span(name, attributes=dict(attributes), **more) as span:  # type: ignore[arg-type]  # named options of it
            yield span


tracing = Tracing()
"""Of this process."""


@contextmanager
def traced(endpoint: str) -> Iterator[None]:
    """Traces while inside, if there is an endpoint.

    Raises:
        TracingError: As `Tracing.start`.
    """
    if endpoint:
        tracing.start(endpoint)
    try:
        yield
    finally:
        tracing.stop()
