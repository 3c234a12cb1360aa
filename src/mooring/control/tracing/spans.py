"""Spans as OpenTelemetry has them, sent over HTTP. The only file that knows its SDK.

The trace of a volume is named by its claim's uid without the hyphens: every program knows that uid, so all of them come
to one trace without a write. A ratio of OTEL_TRACES_SAMPLER looks at the lower half of the name, where a uid's first
bits are always the same: the sampler is shown the name with its halves exchanged, and so are those of all programs.

A thread of the SDK sends spans in batches, from a queue with a bound; a collector that is away, or hangs, keeps no
controller waiting.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Callable
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Sampler, SamplingResult

import mooring
from mooring.base.errors import ConfigError
from mooring.base.log import logger
from mooring.control.tracing.steps import Span

AGAIN_S: Final = 60.0
"""Seconds between two lines of the log about spans that could not be sent."""
PROTOCOL: Final = "http/protobuf"
_PROTOCOL_VARIABLES: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_HALF: Final = 2**64 - 1

_log = logger(__name__)


def trace_id_of(uid: str) -> int:
    """The trace's name: a uid's digits, or the digest of a name that is no uid."""
    digits = uid.replace("-", "")
    try:
        found = int(digits, 16) if len(digits) == 32 else 0
    except ValueError:
        found = 0
    return found or int.from_bytes(hashlib.sha256(uid.encode()).digest()[:16], "big")


class _Ids(RandomIdGenerator):
    """trace_id: of the next span without a parent."""

    trace_id = 0

    def generate_trace_id(self) -> int:
        return self.trace_id


class _OfVolumes(Sampler):
    """Another sampler, shown the halves of the trace's name exchanged."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def should_sample(self, parent_context: Context | None, trace_id: int, *rest: Any, **more: Any) -> SamplingResult:
        return self._sampler.should_sample(parent_context, (trace_id & _HALF) << 64 | trace_id >> 64, *rest, **more)

    def get_description(self) -> str:
        return self._sampler.get_description()


class Spans:
    """A `SpanSink`. name: of the program. processor: what takes the spans that have ended."""

    def __init__(self, name: str, processor: SpanProcessor) -> None:
        self._ids = _Ids()
        own = Resource.create({"service.name": name, "service.version": mooring.__version__})
        resource = own.merge(OTELResourceDetector().detect())  # the environment's words count
        self._provider = TracerProvider(resource=resource, id_generator=self._ids, shutdown_on_exit=False)
        self._provider.sampler = _OfVolumes(self._provider.sampler)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("mooring", mooring.__version__)

    def put(self, uid: str, span: Span, parent: trace.SpanContext | None = None) -> trace.SpanContext:
        self._ids.trace_id = trace_id_of(uid)
        context = Context() if parent is None else trace.set_span_in_context(trace.NonRecordingSpan(parent), Context())
        kind = trace.SpanKind.CLIENT if span.is_client else trace.SpanKind.INTERNAL
        made = self._tracer.start_span(span.name, context, kind, span.attributes, start_time=span.began)
        if span.error is not None:
            made.set_status(trace.StatusCode.ERROR, span.error)
        made.end(span.ended)
        return made.get_span_context()

    def close(self) -> None:
        """Sends what is left. It may block as long as the exporter's time for one batch."""
        self._provider.shutdown()


class _Told(logging.Handler):
    """The SDK's own warnings, as one line in a while. Any thread may log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._told_at: float | None = None
        self._count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self._count += 1
        if self._told_at is None or record.created - self._told_at >= AGAIN_S:
            self._told_at, count, self._count = record.created, self._count, 0
            _log.warning("Traces are not sent as they should be", why=record.getMessage(), warnings=count)


def spans_over_http(name: str) -> Spans:
    """Spans for the collector that the variables OTEL_EXPORTER_OTLP_… name. Raises ConfigError for variables that can't
    be used.
    """
    for variable in _PROTOCOL_VARIABLES:
        if (wanted := os.environ.get(variable, PROTOCOL)) != PROTOCOL:
            raise ConfigError(
                f"{variable}: traces are sent by {PROTOCOL} alone, not by {wanted}: name the collector's port "
                "for that (4318)"
            )
    library = logging.getLogger("opentelemetry")
    library.handlers, library.propagate = [_Told()], False
    try:
        return Spans(name, BatchSpanProcessor(OTLPSpanExporter()))
    except (ValueError, TypeError, OSError) as error:
        raise ConfigError(f"tracing: a variable of OpenTelemetry can't be used: {error}") from None


def closed_beside(spans: Spans, done: Callable[[], None]) -> None:
    """Close the spans in a thread that no end of the program waits for, and call `done` there."""

    def close() -> None:
        spans.close()
        done()

    threading.Thread(target=close, name="tracing/close", daemon=True).start()
