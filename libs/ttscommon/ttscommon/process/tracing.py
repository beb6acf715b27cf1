"""Traces from a client's request to its last chunk, through every service, and structured logs."""

from __future__ import annotations

import logging
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Literal

import structlog
from opentelemetry import propagate, trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode
from structlog.typing import EventDict, Processor, WrappedLogger

from ttscommon.process.settings import TracingSettings
from ttscommon.process.startup import VERSION
from ttscommon.wire.epochs import is_first
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.subjects import Stage

REQUEST_ID: Final = "antiphon.request_id"
EPOCH: Final = "antiphon.epoch"
_MOST_LINKS: Final = 64

tracer = trace.get_tracer("antiphon")
_first_chunk: ContextVar[Span | None] = ContextVar("first_chunk", default=None)


def configure_traces(service: str, settings: TracingSettings) -> Callable[[], None]:
    """Send spans to the settings' endpoint; returns what sends the last ones at the end."""
    if settings.endpoint is None:
        return lambda: None
    # The SDK takes 0.1 s to import, and a service that traces nothing should not wait for it.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    provider = TracerProvider(
        resource=Resource.create(
            {"service.name": f"antiphon-{service}", "service.version": VERSION}
        ),
        sampler=ParentBased(TraceIdRatioBased(settings.sample_ratio)),
        shutdown_on_exit=False,
    )
    exporter = OTLPSpanExporter(endpoint=f"{settings.endpoint.rstrip('/')}/v1/traces", timeout=5)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider.shutdown


def context_of(headers: Mapping[str, str] | None) -> Context:
    """The trace that a message or an HTTP request came with, if any."""
    return propagate.extract(headers or {})


def only_trace(headers: Mapping[str, str]) -> dict[str, str]:
    """Those of a message's headers that name its trace."""
    carried = propagate.get_global_textmap().fields
    return {name: value for name, value in headers.items() if name.lower() in carried}


@contextmanager
def within(headers: Mapping[str, str]) -> Iterator[None]:
    """Spans that are begun inside belong to the trace of `headers`, if they name one."""
    token = attach(context_of(headers))
    try:
        yield
    finally:
        detach(token)


def request_span(request_id: str, model: str, voice: str, tenant: str) -> Span:
    """A gateway's span for one request, from its acceptance to its end."""
    return tracer.start_span(
        f"generate_content {model}",
        kind=SpanKind.SERVER,
        attributes={
            "gen_ai.operation.name": "generate_content",
            "gen_ai.output.type": "speech",
            "gen_ai.provider.name": "antiphon",
            "gen_ai.request.model": model,
            "antiphon.voice": voice,
            "antiphon.tenant": tenant,
            REQUEST_ID: request_id,
        },
    )


@contextmanager
def sending(
    stage: Stage, request: SpeechRequest, headers: MutableMapping[str, str]
) -> Iterator[None]:
    """The span of a job on its way into a stage's queue; `headers` carry it to the worker."""
    destination = f"job.{stage.queue}.{request.model}"
    attributes = _messaging(destination, request.request_id, "send")
    with tracer.start_as_current_span(
        f"send {destination}", kind=SpanKind.PRODUCER, attributes=attributes
    ):
        propagate.inject(headers)
        yield


@contextmanager
def processing(
    stage: Stage, request: SpeechRequest, epoch: int, headers: Mapping[str, str]
) -> Iterator[Span]:
    """A worker's span for a job; the wait before it and its first chunk are spans below it."""
    destination = f"job.{stage.queue}.{request.model}"
    attributes = {**_messaging(destination, request.request_id, "process"), EPOCH: epoch}
    with tracer.start_as_current_span(
        f"process {destination}",
        context_of(headers),
        SpanKind.CONSUMER,
        attributes,
        record_exception=False,
    ) as span:
        if span.is_recording() and request.created_unix_s and is_first(epoch):
            _finished("queue", request.created_unix_s, time.time())
        first = tracer.start_span("first chunk" if is_first(epoch) else "takeover")
        token = _first_chunk.set(first)
        try:
            yield span
        finally:
            first_chunk(None)
            _first_chunk.reset(token)


def first_chunk(engine_s: float | None) -> None:
    """This task's job has its first chunk, for which its engine worked `engine_s`; safe to repeat.

    None: the job is over without one.
    """
    span = _first_chunk.get()
    if span is None or not span.is_recording():
        return
    now = time.time()
    if engine_s is not None:
        with trace.use_span(span):
            _finished("engine", now - engine_s, now)
    span.end()


def phase(name: str, began_s: float, ended_s: float) -> None:
    """A span of what this task's job did on the way to its first chunk, by the monotonic clock."""
    span = _first_chunk.get()
    if span is not None and span.is_recording():
        unix_s = time.time() - time.monotonic()
        with trace.use_span(span):
            _finished(name, unix_s + began_s, unix_s + ended_s)


def _finished(name: str, began_unix_s: float, ended_unix_s: float) -> None:
    """A span below the current one for what has happened already."""
    span = tracer.start_span(name, start_time=int(began_unix_s * 1e9))
    span.end(int(ended_unix_s * 1e9))


def finish(span: Span, *, error: str | None = None) -> None:
    """End a span; safe to call twice. `error` says what went wrong."""
    if not span.is_recording():
        return
    if error is not None:
        span.set_status(Status(StatusCode.ERROR, error))
    span.end()


def trace_id(span: Span) -> str | None:
    """The span's trace in hexadecimal, if it is one that is kept."""
    context = span.get_span_context()
    return format(context.trace_id, "032x") if context.trace_flags.sampled else None


def add_trace(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """A structlog processor: events name the trace and the span that they belong to."""
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        event.setdefault("trace_id", format(context.trace_id, "032x"))
        event.setdefault("span_id", format(context.span_id, "016x"))
    return event


class StepSpans:
    """Spans of an engine's steps, one of `one_in`, linked to the requests that it was of."""

    def __init__(
        self, stage: str, span_of: Callable[[str], SpanContext | None], one_in: int = 100
    ) -> None:
        self._stage = stage
        self._span_of = span_of
        self._one_in = one_in

    def observe(self, took_s: float, keys: Sequence[str]) -> None:
        """A step of the requests `keys` has just ended. Called by the engine's thread."""
        if random.randrange(self._one_in):
            return
        known = [context for key in keys if (context := self._span_of(key)) is not None]
        sampled = [context for context in known if context.trace_flags.sampled]
        if not sampled:
            return
        ended_ns = time.time_ns()
        span = tracer.start_span(
            f"step {self._stage}",
            Context(),
            links=[Link(context) for context in sampled[:_MOST_LINKS]],
            attributes={"antiphon.stage": self._stage, "antiphon.streams": len(keys)},
            start_time=ended_ns - int(took_s * 1e9),
        )
        span.end(ended_ns)


def _messaging(destination: str, request_id: str, operation: str) -> dict[str, Any]:
    return {
        "messaging.system": "nats",
        "messaging.destination.name": destination,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.message.conversation_id": request_id,
        REQUEST_ID: request_id,
    }


_NOISY: Final = ("httpx", "httpcore", "uvicorn.access", "uvicorn.error", "websockets")


def configure_logs(
    service: str, *, level: str = "info", format: Literal["json", "console"] = "json"
) -> None:
    """Send every log of the process to stdout, structlog's and the standard library's.

    `structlog.contextvars.bind_contextvars(request_id=...)` adds fields to all events of a task.
    """

    def add_service(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
        event.setdefault("service", service)
        return event

    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        add_service,
        add_trace,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    final: list[Processor]
    if format == "json":
        final = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        final = [structlog.dev.ConsoleRenderer(colors=sys.stdout.isatty())]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *final],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)
