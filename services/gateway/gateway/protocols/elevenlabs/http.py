"""Fields of ElevenLabs' clients, and the HTTP routes of speech."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import Field

from gateway import errors
from gateway.audio import AudioFormat, PcmBlock
from gateway.audio.resample import MAX_SPEED, MIN_SPEED
from gateway.errors import Unsupported
from gateway.protocols.elevenlabs.alignment import Alignment, VoiceSegments
from gateway.protocols.fields import LenientMessage, Name, Seed, Spoken
from gateway.protocols.framing import Framing, WholeJson
from gateway.protocols.shared.context import (
    Context,
    max_wait_s,
    read_speech,
    tenant_of,
)
from gateway.protocols.shared.response import SpeechResponse
from gateway.requests import DEFAULT, GatewayContext, Speech
from ttscommon.wire.errors import AntiphonError

_DEFAULT_FORMAT: Final = "mp3_44100_128"
_FORMAT: Final = re.compile(r"^(mp3|pcm|wav|ulaw|alaw|opus)_(\d{4,5})(?:_(\d{1,3}))?$")
_CODECS: Final = MappingProxyType(
    {
        "mp3": "mp3",
        "pcm": "pcm_s16le",
        "wav": "pcm_s16le",
        "ulaw": "mulaw",
        "alaw": "alaw",
        "opus": "opus",
    }
)
_HIGHEST_HZ: Final = 48_000
_LOWEST_HZ: Final = 8_000


class VoiceSettings(LenientMessage):
    speed: float = Field(default=1.0, ge=MIN_SPEED, le=MAX_SPEED)


class TextBody(LenientMessage):
    """The body of every `text-to-speech` route."""

    text: Spoken
    model_id: str = DEFAULT
    language_code: Name | None = None
    seed: Seed | None = None
    voice_settings: VoiceSettings = VoiceSettings()


def parse_format(name: str | None) -> tuple[AudioFormat, int]:
    """An `output_format` and its rate in Hz; raises Unsupported."""
    found = _FORMAT.match(name or _DEFAULT_FORMAT)
    if found is None or not _LOWEST_HZ <= int(found[2]) <= _HIGHEST_HZ:
        raise Unsupported(f"there is no output_format '{name}'", param="output_format")
    codec: Any = _CODECS[found[1]]
    bit_rate = 1000 * int(found[3]) if found[3] else None
    if bit_rate is not None and not 8_000 <= bit_rate <= 320_000:
        raise Unsupported(f"there is no output_format '{name}'", param="output_format")
    audio = AudioFormat(codec, "wav" if found[1] == "wav" else "none", bit_rate)
    return audio, audio.rate_for(int(found[2]))


def error_shape(error: AntiphonError, request_id: str) -> Mapping[str, Any]:
    told = errors.body(error)
    return {
        "detail": {"status": told["code"], "message": told["message"], "request_id": request_id}
    }


router = APIRouter()

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


def headers_of(request: Request) -> dict[str, str]:
    """The request's id under the names that clients read."""
    name = request.state.request_id
    return {"request-id": name, "x-trace-id": name}


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
    framed = None if framing is None else framing(body.text)
    return SpeechResponse(
        *(context.settings, spoken, audio, framed),
        streamed=streamed,
        text=text,
        headers=headers_of(request),
    )
