"""The end of a book: its result or its failure is written, and what led to it is removed."""

from __future__ import annotations

import time

import msgspec
import structlog

from gateway.books.hold import BookHold
from gateway.books.job_store import JobStore, made_of
from gateway.books.portions import patiently
from gateway.books.records import JobResult
from gateway.books.run import BookRun
from gateway.requests import GatewayContext
from ttscommon.wire.errors import AntiphonError, StoreLost

log_ = structlog.get_logger(__name__)


async def finish(
    context: GatewayContext, job_store: JobStore, hold: BookHold, run: BookRun
) -> None:
    """Have it spoken, and keep what came of it; raises BookLost."""
    try:
        if len(run.portions) != hold.record.portions:
            raise StoreLost("the store has lost the text")
        result = await run.run()
    except AntiphonError as error:
        await _fail(context, job_store, hold, error)
        return
    record, encoded = hold.record, msgspec.msgpack.encode(result)
    await patiently(lambda: job_store.parts.put(record.result_name, encoded), record.result_name)
    await _end(context, hold, state="done", size=result.size)
    await _tidy(job_store, hold, result)


async def _fail(
    context: GatewayContext, job_store: JobStore, hold: BookHold, error: AntiphonError
) -> None:
    await _end(context, hold, state="failed", code=error.code, message=error.message)
    await _tidy(job_store, hold, None)


async def _end(context: GatewayContext, hold: BookHold, **changes: object) -> None:
    now = time.time()
    keep_s = context.settings.keep_jobs_s
    hold.change(**changes, running=(), owner="", ended_unix_s=now, expires_unix_s=now + keep_s)
    await hold.write()
    record = hold.record
    tenant = context.services.metrics.listener(record.order.model, record.tenant)[1]
    context.services.metrics.books.labels(record.state, tenant).inc()
    log_.info(
        "book.ended",
        job=record.book_id,
        state=record.state,
        code=record.code,
        characters=record.characters,
        audio_s=round(record.samples / record.order.sample_rate, 1),
        took_s=round(now - record.started_unix_s, 1),
        epoch=record.epoch,
    )


async def _tidy(job_store: JobStore, hold: BookHold, result: JobResult | None) -> None:
    """Until this is done the record names what is left, and goes with all of it when it expires."""
    record = hold.record
    kept = set() if result is None else {part.name for part in result.parts}
    left = [name for name in (record.text_name, *made_of(record)) if name not in kept]
    await job_store.clear(left)
    hold.change(made={}, encoded=0)
    await hold.write()
