"""The body of POST /v1/audio/jobs: JSON with the text in it, or a form with a file."""

from __future__ import annotations

import asyncio
import secrets
from typing import Annotated, Any, Final, Literal

from fastapi import Request
from pydantic import Field, field_validator

from gateway.audio import AudioFormat
from gateway.audio.chaptered import require
from gateway.books import BookOrder, BookReader, PortionText
from gateway.errors import Unsupported
from gateway.protocols.fields import LenientMessage, Name, OptionFields, SampleRate, Seed, Speed
from gateway.protocols.openai.body import SAMPLE_RATE, format_named
from gateway.protocols.shared.bounded_json import BOOK, Gathering
from gateway.protocols.shared.context import chunks, read_json
from gateway.protocols.shared.forms import read_form
from gateway.protocols.shared.response import while_connected
from gateway.requests import DEFAULT, GatewayContext, SpeechSpec
from ttscommon.books import BookPauses, Cast, ReadBook, ReadOrder, one_line, parse_cast
from ttscommon.wire.errors import TextTooLong
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
        values = await read_form(kind, chunks(request, most + _FRAME_BYTES), {_FILE: most})
        data = values.pop(_FILE, None)
        texts = {name: value.decode("utf-8", "replace") for name, value in values.items()}
        body = JobBody.parsed(texts)
        return body, body.input.encode() if data is None else data
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


__all__ = ["JobBody", "read_job"]
