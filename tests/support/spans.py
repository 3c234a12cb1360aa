"""Traces in memory, and what tests ask of them."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mooring.control.tracing.spans import Spans, trace_id_of


class SpansInMemory:
    """What several programs have sent. of: the sink of a program of this name."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()

    def of(self, program: str) -> Spans:
        return Spans(program, SimpleSpanProcessor(self._exporter))

    @property
    def all(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def in_trace(self, uid: str) -> list[ReadableSpan]:
        return [span for span in self.all if span.context.trace_id == trace_id_of(uid)]


def tree(spans: Sequence[ReadableSpan]) -> dict[str, list[str]]:
    """The names of spans without a parent, each with those below it, in their order of time."""
    names = {span.context.span_id: span.name for span in spans if span.parent is None}
    found: dict[str, list[str]] = {name: [] for name in names.values()}
    for span in sorted(spans, key=lambda span: span.start_time or 0):
        if span.parent is not None:
            found[names[span.parent.span_id]].append(span.name)
    return found


def only(spans: Sequence[ReadableSpan], name: str) -> ReadableSpan:
    (found,) = [span for span in spans if span.name == name]
    return found
