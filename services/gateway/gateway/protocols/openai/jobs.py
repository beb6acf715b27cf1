"""Jobs: long texts that are spoken behind listeners, and fetched when they are done."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from gateway.books import BookRecord
from gateway.errors import NotReady
from gateway.protocols.openai.job_body import read_job
from gateway.protocols.shared.context import Context, Reader, Runner, Store
from gateway.protocols.shared.credentials import tenant_of
from gateway.protocols.shared.ranges import RangedSound
from gateway.protocols.shared.response import PROVENANCE_HEADER
from gateway.requests import GatewayContext
from ttscommon.wire.errors import AntiphonError

router = APIRouter()

_PATH: Final = "/v1/audio/jobs"


@router.post(_PATH)
async def make(
    request: Request, context: Context, job_store: Store, job_runner: Runner, reader: Reader
) -> Response:
    """Store a text that is to be spoken; see docs/protocol.md."""
    tenant = tenant_of(context, request)
    order, portions = await read_job(request, context, reader, tenant)
    quota = context.keys.jobs(tenant, context.settings.max_jobs)
    record = await job_store.add(tenant, order, portions, quota)
    context.services.usage.count(tenant, order.model, requests=1)
    job_runner.wake()
    where = {"location": f"{_PATH}/{record.book_id}"}
    return JSONResponse(_card(context, record, time.time()), 202, where)


@router.get(_PATH)
async def every(request: Request, context: Context, job_store: Store) -> dict[str, Any]:
    """The caller's jobs, the oldest first."""
    now = time.time()
    found = await job_store.of(tenant_of(context, request))
    return {"object": "list", "data": [_card(context, one.record, now) for one in found]}


@router.get(_PATH + "/{job_id}")
async def one(request: Request, context: Context, job_store: Store, job_id: str) -> dict[str, Any]:
    """How far a job is."""
    found = await job_store.get(tenant_of(context, request), job_id)
    return _card(context, found.record, time.time())


@router.delete(_PATH + "/{job_id}")
async def cancel(
    request: Request, context: Context, job_runner: Runner, job_id: str
) -> dict[str, Any]:
    """Stop a job, if it is not over, and remove what was made of it."""
    await job_runner.cancel(tenant_of(context, request), job_id)
    return {"success": True}


@router.head(_PATH + "/{job_id}/audio", response_class=Response)
@router.get(_PATH + "/{job_id}/audio", response_class=Response)
async def sound(request: Request, context: Context, job_store: Store, job_id: str) -> Response:
    """A finished job's sound, or a range of it."""
    record = (await job_store.get(tenant_of(context, request), job_id)).record
    result = await job_store.result(record) if record.state == "done" else None
    if result is None:
        raise NotReady(f"the job is {record.state}: there is no sound of it", param="job_id")
    kind = record.order.audio.media_type
    if record.order.audio.raw:
        kind += f";rate={record.order.sample_rate};channels=1"
    headers = {"content-type": kind, "etag": f'"{record.book_id}"'}
    if (origin := record.order.provenance) is not None:
        headers[PROVENANCE_HEADER] = origin.header
    return RangedSound(job_store.parts, result, headers, request)


def _card(context: GatewayContext, record: BookRecord, now: float) -> dict[str, Any]:
    lacking = None if record.over else context.catalogue.lacks(record.order.model)
    return job_card(record, now, lacking)


def job_card(
    record: BookRecord, now: float, lacking: AntiphonError | None = None
) -> dict[str, Any]:
    """A job for its owner. Times are seconds since 1970; what is not known yet is null. lacking:
    what it waits for.
    """
    order = record.order
    done = record.state == "done"
    return {
        "id": record.book_id,
        "object": "audio.job",
        "status": record.state,
        "title": order.title,
        "model": order.model,
        "response_format": order.called,
        "sample_rate": order.sample_rate,
        "seed": order.seed,
        "created_at": int(record.created_unix_s),
        "started_at": _time(record.started_unix_s),
        "ended_at": _time(record.ended_unix_s),
        "expires_at": _time(record.expires_unix_s),
        "progress": _progress(record, now),
        "audio_seconds": round(record.samples / order.sample_rate, 3),
        "bytes": record.size if done else None,
        "audio_url": f"{_PATH}/{record.book_id}/audio" if done else None,
        "runaways": record.runaways,
        "warning": {"code": lacking.code, "message": lacking.message} if lacking else None,
        "error": {"code": record.code, "message": record.message} if record.code else None,
    }


def _progress(record: BookRecord, now: float) -> Mapping[str, Any]:
    """left_s and audio_seconds go by what the spoken part took and gave."""
    share = record.spoken / record.characters
    seconds = record.samples / record.order.sample_rate
    took_s = now - record.started_unix_s
    going = share > 0 and not record.over
    return {
        "characters": record.characters,
        "spoken": record.spoken,
        "share": round(share, 4),
        "left_s": round(took_s * (1 - share) / share, 1) if going else None,
        "expected_audio_seconds": round(seconds / share, 1) if share > 0 else None,
    }


def _time(unix_s: float) -> int | None:
    return int(unix_s) or None
