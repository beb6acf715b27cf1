"""A receiver of traces: OTLP over HTTP, on a free port of this machine."""

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class ReceivedSpan:
    """A span as it came: ids in hexadecimal, times in Unix seconds."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    began_unix_s: float
    ended_unix_s: float
    attributes: dict[str, Any]
    links: tuple[str, ...]


@dataclass
class OtlpReceiver:
    """Collects what is sent while it is entered; `url` is the endpoint of the services."""

    host: str = "127.0.0.1"
    spans: list[ReceivedSpan] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self._server.server_port}"

    def __enter__(self) -> Self:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.spans += parse(body)
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer((self.host, 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Take nothing any more; safe to call twice."""
        self._server.shutdown()
        self._server.server_close()

    def of(self, trace_id: str) -> list[ReceivedSpan]:
        """The spans of one trace, as they began."""
        found = [span for span in self.spans if span.trace_id == trace_id]
        return sorted(found, key=lambda span: span.began_unix_s)


def parse(body: bytes) -> list[ReceivedSpan]:
    """The spans of one request of an exporter; they are not compressed here."""
    request = ExportTraceServiceRequest.FromString(body)
    return [
        ReceivedSpan(
            service=_attributes(resource.resource.attributes)["service.name"],
            name=span.name,
            trace_id=span.trace_id.hex(),
            span_id=span.span_id.hex(),
            parent_id=span.parent_span_id.hex(),
            began_unix_s=span.start_time_unix_nano / 1e9,
            ended_unix_s=span.end_time_unix_nano / 1e9,
            attributes=_attributes(span.attributes),
            links=tuple(link.trace_id.hex() for link in span.links),
        )
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
