"""A collector of traces for tests: takes OTLP over HTTP as protobuf, and keeps the spans."""

from __future__ import annotations

import dataclasses
import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclasses.dataclass(frozen=True)
class Received:
    """One span, and the resource that it came from."""

    service: str
    span: Span

    @property
    def attributes(self) -> dict[str, Any]:
        return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in self.span.attributes}


class Receiver:
    """Listens while it is entered. raw: every body, as it came."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        self.raw: list[bytes] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.take(self.path, gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def take(self, path: str, body: bytes) -> None:
        assert "/v1/traces" == path
        self.raw.append(body)
        for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            about = {one.key: one.value.string_value for one in of_resource.resource.attributes}
            for of_scope in of_resource.scope_spans:
                self.spans += [Received(about["service.name"], span) for span in of_scope.spans]

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
