"""`POST /v1/text-to-dialogue`: several texts, each with its voice, as one answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from itertools import accumulate, groupby
from typing import Annotated, Any, Final, Self, cast

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import Response
from msgspec.structs import replace as changed
from pydantic import Field

from gateway.protocols.elevenlabs.alignment import VoiceSegments
from gateway.protocols.elevenlabs.http import (
    Output,
    TimedLines,
    TimedWhole,
    VoiceSettings,
    headers_of,
    parse_format,
)
from gateway.protocols.fields import LenientMessage, Name, Seed, Spoken
from gateway.protocols.framing import Framing
from gateway.protocols.shared.context import Context, max_wait_s, read_speech, tenant_of
from gateway.protocols.shared.response import SpeechResponse
from gateway.requests import DEFAULT, GatewayContext, Speech, SpeechSpec
from gateway.requests.options import RequestOptions, TurnOptions
from ttscommon.wire.messages import MAX_TURNS, AudioChunk, Tensor, WordTime
from ttscommon.wire.replicas import Model

router = APIRouter()

# A part that finds no room when the one before has ended waits rather than cut the answer off.
_LATER_WAIT_S: Final = 60.0
# Between two who speak in turn. Shorter ones sound like an interruption.
_GAP_S: Final = 0.3


class Input(LenientMessage):
    """A text and who says it."""

    text: Spoken
    voice_id: str = DEFAULT


class DialogueBody(LenientMessage):
    """`settings` hold for all inputs."""

    inputs: Annotated[list[Input], Field(min_length=1, max_length=64)]
    model_id: str = DEFAULT
    language_code: Name | None = None
    seed: Seed | None = None
    settings: VoiceSettings = VoiceSettings()


class DialogueRequests:
    """Several requests, one after another, heard as one: the first of them, and those behind it.

    Between two voices is a pause. Word times and places count from the beginning of the first,
    which answers for what is not said here. offsets: where the texts of those behind it begin.
    """

    def __init__(self, first: Speech, rest: Iterable[Speech], offsets: Iterable[int]) -> None:
        self._first, self._rest = first, list(rest)
        self._offsets = (0, *offsets)
        self._now = first
        self._open = AsyncExitStack()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._first, name)

    async def __aenter__(self) -> Self:
        await self._open.enter_async_context(self._first)
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await self._open.__aexit__(*raised)

    async def __aiter__(self) -> AsyncIterator[AudioChunk]:
        passed = 0  # samples
        for part, offset in zip((self._first, *self._rest), self._offsets, strict=True):
            if passed:
                yield (gap := _gap(part, passed))
                passed += len(gap.pcm)
            await self._go_on(part)
            passed_s = passed / part.spec.model.sample_rate
            async for chunk in part:
                passed += len(chunk.pcm)
                yield _later(chunk, passed_s, offset)

    async def _go_on(self, part: Speech) -> None:
        """Leave the part before, whose place this one may take."""
        if part is not self._now:
            await self._open.aclose()
            self._now = await self._open.enter_async_context(part)

    async def handed(self, samples: int) -> None:
        """So much was given to the connection."""
        await self._now.handed(samples)


def _gap(part: Speech, start: int) -> AudioChunk:
    rate = part.spec.model.sample_rate
    silence = Tensor.of(np.zeros(round(_GAP_S * rate), np.int16))
    return AudioChunk(part.request_id, start, rate, silence)


def _later(chunk: AudioChunk, seconds: float, offset: int) -> AudioChunk:
    if not seconds or not chunk.words:
        return chunk
    return changed(chunk, words=tuple(_moved(word, seconds, offset) for word in chunk.words))


def _moved(word: WordTime, seconds: float, offset: int) -> WordTime:
    if word.first >= 0:
        word = changed(word, first=word.first + offset, last=word.last + offset)
    return changed(word, start_s=word.start_s + seconds, end_s=word.end_s + seconds)


@router.post("/v1/text-to-dialogue", response_class=Response)
@router.post("/v1/text-to-dialogue/stream", response_class=Response)
async def speak(request: Request, context: Context, output_format: Output = None) -> Response:
    """Audio, as it is made."""
    return await _speak(request, context, output_format)


@router.post("/v1/text-to-dialogue/with-timestamps", response_class=Response)
async def speak_timed(request: Request, context: Context, output_format: Output = None) -> Response:
    """Audio, times and who speaks when, whole."""
    return await _speak(request, context, output_format, TimedWhole, streamed=False)


@router.post("/v1/text-to-dialogue/stream/with-timestamps", response_class=Response)
async def stream_timed(
    request: Request, context: Context, output_format: Output = None
) -> Response:
    """Audio, times and who speaks when, as they are made."""
    return await _speak(request, context, output_format, TimedLines)


async def _speak(
    request: Request,
    context: GatewayContext,
    output_format: str | None,
    framing: Callable[[str, VoiceSegments], Framing] | None = None,
    *,
    streamed: bool = True,
) -> Response:
    tenant = tenant_of(context, request)
    body = DialogueBody.parsed(await read_speech(request, context, tenant))
    audio, rate = parse_format(output_format)
    parts = [
        (voice, " ".join(one.text for one in inputs))
        for voice, inputs in groupby(body.inputs, key=lambda one: one.voice_id)
    ]
    said = " ".join(text for _, text in parts)
    whole = context.whole(said)
    specs = await _specs(context, tenant, body, parts, rate)
    specs[0] = replace(specs[0], max_wait_s=max_wait_s(request))
    texts = [context.whole(text) for _, text in parts]
    first = context.speak(specs[0], texts[0], request.state.request_id)
    later = [context.speak(*one) for one in zip(specs[1:], texts[1:], strict=True)]
    offsets = accumulate(len(text) + 1 for _, text in parts[:-1])
    spoken = cast(Speech, DialogueRequests(first, later, offsets)) if later else first
    segments = VoiceSegments((one.voice_id, one.text) for one in body.inputs)
    framed = None if framing is None else framing(said, segments)
    return SpeechResponse(
        *(context.settings, spoken, audio, framed),
        streamed=streamed,
        text=whole,
        headers=headers_of(request),
    )


async def _specs(
    context: GatewayContext,
    tenant: str,
    body: DialogueBody,
    parts: list[tuple[str, str]],
    rate: int,
) -> list[SpeechSpec]:
    """How each part is spoken. A model that takes turns hears what was said before."""
    names = partial(context.names, lenient=True)
    model = (await context.catalogue.resolve(body.model_id, DEFAULT, names))[0]
    takes_turns = {"turns", "speaker"} <= set(model.accepts)
    meant = _voices(context, model, body, [voice for voice, _ in parts])
    speakers = {voice: number for number, voice in enumerate(dict.fromkeys(v for v, _ in parts))}
    specs: list[SpeechSpec] = []
    said: list[TurnOptions] = []
    for voice, text in parts:
        options = RequestOptions()
        if takes_turns:
            options = RequestOptions(turns=tuple(said[-MAX_TURNS:]), speaker=speakers[voice])
            said.append(TurnOptions(speakers[voice], text))
        specs.append(
            await context.spec(
                tenant,
                model=body.model_id,
                voice=meant[voice],
                sample_rate=rate,
                seed=body.seed,
                language=body.language_code,
                speed=body.settings.speed,
                names="any",
                options=options,
                max_wait_s=_LATER_WAIT_S,
            )
        )
    return specs


def _voices(
    context: GatewayContext, model: Model, body: DialogueBody, names: Iterable[str]
) -> dict[str, str]:
    """What each name is spoken with. Names that mean nothing here are voices of their own, as long
    as there are any.
    """
    tag = body.language_code or (model.voices[0].native if model.voices else "")
    meant = {
        name: context.names(body.model_id, name, lenient=True, language=body.language_code)[1]
        for name in names
    }
    free = [v.id for v in model.voices if v.speaks(tag) and v.id not in meant.values()]
    taken: set[str] = set()
    for name, voice in meant.items():
        if voice in taken and voice != name and free:
            meant[name] = free.pop(0)
        taken.add(meant[name])
    return meant
