"""The HTTP routes."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from gateway.audio import PcmBlock
from gateway.protocols.elevenlabs.alignment import Alignment, VoiceSegments
from gateway.protocols.elevenlabs.fields import TextBody, error_shape, parse_format
from gateway.protocols.framing import Framing
from gateway.protocols.shared.context import Context, chosen_headers, max_wait_s, read_speech
from gateway.protocols.shared.credentials import tenant_of
from gateway.protocols.shared.response import SpeechResponse
from gateway.protocols.shared.shapes import shaped
from gateway.protocols.shared.wholejson import WholeJson
from gateway.requests import GatewayContext, IncrementalText, Speech, SpeechSpec
from ttscommon.wire.errors import AntiphonError

router = APIRouter(dependencies=[shaped(error_shape)])

Output = Annotated[str | None, Query(alias="output_format")]


class TimedLines(Framing):
    """One JSON object a line: audio, and the times of the characters in it."""

    media_type = "application/json"
    blames = "input"

    def __init__(self, text: str, segments: VoiceSegments | None = None) -> None:
        self._alignment, self._segments = Alignment(text), segments

    def audio(self, speech: Speech, piece: PcmBlock) -> bytes:
        self._alignment.add(piece.words)
        return self._line(base64.b64encode(piece.data).decode())

    def last(self, speech: Speech, samples: int) -> bytes:
        self._alignment.end(samples / speech.sample_rate)
        return self._line("")

    def _line(self, audio: str) -> bytes:
        times = _times(self._alignment, self._segments)
        if not audio and times["alignment"] is None:
            return b""
        return msgspec.json.encode({"audio_base64": audio, **times}) + b"\n"

    def failed(self, speech: Speech, error: AntiphonError) -> bytes:
        return msgspec.json.encode(error_shape(error, "")) + b"\n"


class TimedWhole(WholeJson):
    """One JSON object with everything."""

    field = "audio_base64"

    def __init__(self, text: str, segments: VoiceSegments | None = None) -> None:
        super().__init__()
        self._alignment, self._segments = Alignment(text), segments

    def audio(self, speech: Speech, piece: PcmBlock) -> bytes:
        self._alignment.add(piece.words)
        return super().audio(speech, piece)

    def last(self, speech: Speech, samples: int) -> bytes:
        self._alignment.end(samples / speech.sample_rate)
        return b""

    def beside(self) -> dict[str, Any]:
        return _times(self._alignment, self._segments)


def _times(alignment: Alignment, segments: VoiceSegments | None) -> dict[str, Any]:
    written, spoken = alignment.seconds()
    told: dict[str, Any] = {"alignment": written, "normalized_alignment": spoken}
    return told if segments is None else {**told, "voice_segments": segments.of(written)}


def headers_of(request: Request, spec: SpeechSpec, text: IncrementalText) -> dict[str, str]:
    """What was chosen, and the request's id under the names that clients read."""
    name = request.state.request_id
    return {**chosen_headers(spec, text), "request-id": name, "x-trace-id": name}


@router.post("/v1/text-to-speech/{voice_id}", response_class=Response)
async def speak(
    request: Request, context: Context, voice_id: str, output_format: Output = None
) -> Response:
    """Audio, as it is made; WAV whole, because its head tells the length."""
    streamed = not (output_format or "").startswith("wav")
    return await _speak(request, context, voice_id, output_format, streamed=streamed)


@router.post("/v1/text-to-speech/{voice_id}/stream", response_class=Response)
async def stream(
    request: Request, context: Context, voice_id: str, output_format: Output = None
) -> Response:
    """Audio, as it is made."""
    return await _speak(request, context, voice_id, output_format)


@router.post("/v1/text-to-speech/{voice_id}/with-timestamps", response_class=Response)
async def speak_timed(
    request: Request, context: Context, voice_id: str, output_format: Output = None
) -> Response:
    """Audio and times, whole."""
    return await _speak(request, context, voice_id, output_format, TimedWhole, streamed=False)


@router.post("/v1/text-to-speech/{voice_id}/stream/with-timestamps", response_class=Response)
async def stream_timed(
    request: Request, context: Context, voice_id: str, output_format: Output = None
) -> Response:
    """Audio and times, as they are made."""
    return await _speak(request, context, voice_id, output_format, TimedLines)


async def _speak(
    request: Request,
    context: GatewayContext,
    voice_id: str,
    output_format: str | None,
    framing: Callable[[str], Framing] | None = None,
    *,
    streamed: bool = True,
) -> Response:
    tenant = tenant_of(context, request)
    body = TextBody.parsed(await read_speech(request, context, tenant))
    audio, rate = parse_format(output_format)
    text = context.whole(body.text)
    spec = await context.spec(
        tenant,
        model=body.model_id,
        voice=voice_id,
        sample_rate=rate,
        seed=body.seed,
        language=body.language_code,
        speed=body.voice_settings.speed,
        names="any",
        max_wait_s=max_wait_s(request),
    )
    spoken = context.speak(spec, text, request.state.request_id)
    headers = headers_of(request, spec, text)
    framed = None if framing is None else framing(body.text)
    return SpeechResponse(
        context.settings, spoken, audio, framed, streamed=streamed, headers=headers
    )
