"""Structured logs: one JSON object or one readable line per event, also for libraries' logs."""

from __future__ import annotations

import logging
import sys
from typing import Final, Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from ttscommon.process.tracing import add_trace

_NOISY: Final = ("httpx", "httpcore", "uvicorn.access", "uvicorn.error", "websockets")


def configure(
    service: str,
    *,
    level: str = "info",
    format: Literal["json", "console"] = "json",
    stream: TextIO | None = None,
) -> None:
    """Send every log of the process to `stream` (stdout), structlog's and the standard library's.

    `structlog.contextvars.bind_contextvars(request_id=...)` adds fields to all events of a task.
    """
    output = stream or sys.stdout

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
        final = [structlog.dev.ConsoleRenderer(colors=output.isatty())]
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
    handler = logging.StreamHandler(output)
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
