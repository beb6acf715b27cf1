"""The HTTP routes."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from gateway.audio import PcmBlock
from gateway.protocols.elevenlabs.alignment import Alignment
from gateway.protocols.elevenlabs.fields import error_shape, parse_body, parse_format
from gateway.protocols.framing import Framing
from gateway.protocols.shared.context import Context, chosen_headers, max_wait_s, read_json
from gateway.protocols.shared.credentials import tenant_of
from gateway.protocols.shared.response import SpeechResponse
from gateway.protocols.shared.shapes import shaped
from gateway.requests import GatewayContext, Speech
from ttscommon.wire.errors import AntiphonError

router = APIRouter(dependencies=[shaped(error_shape)])

Output = Annotated[str | None, Query(alias="output_format")]


class TimedLines(Framing):
    """One JSON object a line: audio, and the times of the characters in it."""

    media_type = "application/json"
    blames = "input"

    def __init__(self, text: str) -> None:
        self._alignment = Alignment(text)

    def audio(self, speech: Speech, piece: PcmBlock) -> bytes:
        self._alignment.add(piece.words)
        return self._line(base64.b64encode(piece.data).decode())

    def last(self, speech: Speech, samples: int) -> bytes:
        self._alignment.end(samples / speech.sample_rate)
        return self._line("")

    def _line(self, audio: str) -> bytes:
        times = _times(self._alignment)
        if not audio and times["alignment"] is None:
            return b""
        return msgspec.json.encode({"audio_base64": audio, **times}) + b"\n"

    def failed(self, speech: Speech, error: AntiphonError) -> bytes:
        return msgspec.json.encode(error_shape(error, "")) + b"\n"


class TimedWhole(Framing):
    """One JSON object with everything; only the times wait for its end."""

    media_type = "application/json"
    blames = "input"

    def __init__(self, text: str) -> None:
        self._head = b'{"audio_base64":"'
        self._rest = b""
        self._alignment = Alignment(text)

    def audio(self, speech: Speech, piece: PcmBlock) -> bytes:
        self._alignment.add(piece.words)
        data = self._rest + piece.data
        whole = len(data) - len(data) % 3  # three bytes are four characters
        self._rest = data[whole:]
        return self._encoded(data[:whole])

    def last(self, speech: Speech, samples: int) -> bytes:
        self._alignment.end(samples / speech.sample_rate)
        return b""

    def end(self, speech: Speech) -> bytes:
        return self._encoded(self._rest) + b'",' + msgspec.json.encode(_times(self._alignment))[1:]

    def _encoded(self, data: bytes) -> bytes:
        head, self._head = self._head, b""
        return head + base64.b64encode(data)


def _times(alignment: Alignment) -> dict[str, Any]:
    return dict(zip(("alignment", "normalized_alignment"), alignment.seconds(), strict=True))


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
    body = parse_body((await read_json(request, context.settings)).data)
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
    headers = {**chosen_headers(spec, text), "x-trace-id": request.state.request_id}
    framed = None if framing is None else framing(body.text)
    return SpeechResponse(
        context.settings, spoken, audio, framed, streamed=streamed, headers=headers
    )
