"""Jobs: long texts that are spoken behind listeners, and fetched when they are done."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import Field, field_validator

from gateway.audio import AudioFormat
from gateway.audio.chaptered import require
from gateway.books import BookOrder, BookReader, BookRecord, PortionText
from gateway.errors import NotReady, Unsupported
from gateway.protocols.fields import LenientMessage, Name, OptionFields, SampleRate, Seed, Speed
from gateway.protocols.openai.speech import SAMPLE_RATE, format_named
from gateway.protocols.shared.bounded_json import BOOK, Gathering
from gateway.protocols.shared.context import (
    Context,
    Runner,
    chunks,
    read_json,
    tenant_of,
)
from gateway.protocols.shared.forms import read_form
from gateway.protocols.shared.response import PROVENANCE_HEADER, RangedSound, while_connected
from gateway.requests import DEFAULT, GatewayContext, SpeechSpec
from ttscommon.books import BookPauses, Cast, ReadBook, ReadOrder, one_line, parse_cast
from ttscommon.wire.errors import AntiphonError, BadRequest, TextTooLong
from ttscommon.wire.replicas import Model

_SEEDS: Final = 1 << 31
_FILE: Final = "file"
_ZIP: Final = b"PK\x03\x04"
# Other clients are served behind so many.
_PORTIONS_A_TURN: Final = 500
# What a form has around its file, and JSON around its text.
_FRAME_BYTES: Final = 64 << 10


class JobBody(LenientMessage, OptionFields):
    """A book to be spoken. input: its text, which may lie in a form's `file` as well. cast: voices
    by the names of speakers. Unknown fields are ignored.
    """

    input: str = ""
    input_format: Literal["text", "markdown", "epub"] | None = None
    title: Annotated[str, Field(max_length=500)] = ""
    model: Name = DEFAULT
    voice: Name = DEFAULT
    cast: dict[str, Name] = Field(default_factory=dict)
    response_format: str = "mp3"
    sample_rate: SampleRate = SAMPLE_RATE
    speed: Speed = 1.0
    seed: Seed | None = None
    paragraph_pause_s: Annotated[float, Field(ge=0, le=60)] = BookPauses.paragraph_s
    chapter_pause_s: Annotated[float, Field(ge=0, le=60)] = BookPauses.chapter_s

    @field_validator("title")
    @classmethod
    def _line(cls, value: str) -> str:
        return one_line(value)

    @field_validator("cast", mode="before")
    @classmethod
    def _lines(cls, value: Any) -> Any:
        """In a form: `Name = voice`, a line each."""
        return dict(parse_cast(value).voices) if isinstance(value, str) else value

    @property
    def pauses(self) -> BookPauses:
        return BookPauses(self.paragraph_pause_s, self.chapter_pause_s)


async def read_job(
    request: Request, context: GatewayContext, reader: BookReader, tenant: str
) -> tuple[BookOrder, list[PortionText]]:
    """What is to be spoken, and how; raises BadRequest, Overloaded and what GatewayContext.spec
    raises.
    """
    body, data = await _read(request, context)
    if not data.strip():
        raise BadRequest(
            f"there is no text: send it as 'input', or in a form as '{_FILE}'", param="input"
        )
    if body.ref_audio or body.turns:
        raise Unsupported(
            "a job speaks with voices that are there: make one of the recording first",
            param="ref_audio" if body.ref_audio else "turns",
        )
    audio = _format(body.response_format)
    specs = _Specs(context, tenant, body, audio.rate_for(body.sample_rate))
    default = await specs.of(body.voice)
    read = reader.read(tenant, _order(body, data, default.model), data)
    book = await while_connected(request.receive, read)
    _require_length(book, context.settings.max_job_chars)
    text = await _voiced(book, body, specs)
    seed = secrets.randbelow(_SEEDS) if body.seed is None else body.seed
    order = BookOrder(
        default.model.name,
        audio,
        body.response_format,
        default.sample_rate,
        seed,
        body.speed,
        default.options,
        body.title or book.title,
        context.services.provenance(default.model.name),
        book.author,
        book.language,
    )
    return order, text


def _format(name: str) -> AudioFormat:
    """A format of speech, or of a whole book; raises BadRequest, Unsupported."""
    if name != "m4b":
        return format_named(name)
    require("m4b")
    return AudioFormat("aac", "mp4")


class _Specs:
    """How each of a book's voices is asked for; every one is looked up before the book is taken."""

    def __init__(self, context: GatewayContext, tenant: str, body: JobBody, rate: int) -> None:
        self._context, self._tenant, self._body, self._rate = context, tenant, body, rate
        self._known: dict[str, SpeechSpec] = {}

    async def of(self, voice: str) -> SpeechSpec:
        if voice not in self._known:
            body = self._body
            self._known[voice] = await self._context.spec(
                self._tenant,
                model=body.model,
                voice=voice,
                names="aliases",
                sample_rate=self._rate,
                options=body.options,
                speed=body.speed,
            )
        return self._known[voice]


async def _read(request: Request, context: GatewayContext) -> tuple[JobBody, bytes]:
    kind = request.headers.get("content-type", "")
    most = context.settings.max_job_bytes
    if kind.lower().startswith("multipart/"):
        texts, files = await read_form(kind, chunks(request, most + _FRAME_BYTES), {_FILE: most})
        body = JobBody.parsed(texts)
        return body, files.get(_FILE, body.input.encode())
    given = await read_json(request, context.settings, most, Gathering(BOOK))
    body = JobBody.parsed(given)
    text = await asyncio.to_thread(given.spelt, body.input)
    return body, text.encode("utf-8", "replace")


def _order(body: JobBody, data: bytes, model: Model) -> ReadOrder:
    kind = body.input_format or ("epub" if data.startswith(_ZIP) else "text")
    speakers = *body.cast, *(voice.id for voice in model.voices)
    return ReadOrder(kind, speakers, body.title, body.pauses)


def _require_length(book: ReadBook, most: int) -> None:
    if book.characters > most:
        raise TextTooLong(
            f"the text has {book.characters} characters, at most {most} are taken", param="input"
        )


async def _voiced(book: ReadBook, body: JobBody, specs: _Specs) -> list[PortionText]:
    """Its portions, each by the voice that its speaker has in the cast, or is named by."""
    cast = Cast(body.cast)
    found: list[PortionText] = []
    for number, one in enumerate(book.portions):
        if number % _PORTIONS_A_TURN == 0:
            await asyncio.sleep(0)
        voice = cast.voice(one.speaker) or one.speaker or body.voice
        spec = await specs.of(voice)
        begins = not found or found[-1].chapter != one.chapter
        heading = book.chapters[one.chapter] if begins else ""
        found.append(PortionText(one.text, spec.voice.id, one.pause_s, one.chapter, heading))
    return found


router = APIRouter()

_PATH: Final = "/v1/audio/jobs"


@router.post(_PATH)
async def make(request: Request, context: Context, job_runner: Runner) -> Response:
    """Store a text that is to be spoken; see docs/protocol.md."""
    tenant = tenant_of(context, request)
    order, portions = await read_job(request, context, job_runner.reader, tenant)
    quota = context.keys.limit("jobs", tenant, context.settings.max_jobs)
    record = await job_runner.job_store.add(tenant, order, portions, quota)
    context.services.usage.count(tenant, order.model, requests=1)
    job_runner.wake()
    where = {"location": f"{_PATH}/{record.book_id}"}
    return JSONResponse(_card(context, record, time.time()), 202, where)


@router.get(_PATH)
async def every(request: Request, context: Context, job_runner: Runner) -> dict[str, Any]:
    """The caller's jobs, the oldest first."""
    now = time.time()
    found = await job_runner.job_store.of(tenant_of(context, request))
    return {"object": "list", "data": [_card(context, one.record, now) for one in found]}


@router.get(_PATH + "/{job_id}")
async def one(
    request: Request, context: Context, job_runner: Runner, job_id: str
) -> dict[str, Any]:
    """How far a job is."""
    found = await job_runner.job_store.get(tenant_of(context, request), job_id)
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
async def sound(request: Request, context: Context, job_runner: Runner, job_id: str) -> Response:
    """A finished job's sound, or a range of it."""
    record = (await job_runner.job_store.get(tenant_of(context, request), job_id)).record
    result = await job_runner.job_store.result(record) if record.state == "done" else None
    if result is None:
        raise NotReady(f"the job is {record.state}: there is no sound of it", param="job_id")
    kind = record.order.audio.media_type
    if record.order.audio.raw:
        kind += f";rate={record.order.sample_rate};channels=1"
    headers = {"content-type": kind, "etag": f'"{record.book_id}"'}
    if (origin := record.order.provenance) is not None:
        headers[PROVENANCE_HEADER] = origin.header
    return RangedSound(job_runner.job_store.parts, result, headers, request)


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
