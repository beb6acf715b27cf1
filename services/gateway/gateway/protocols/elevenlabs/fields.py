"""Fields of ElevenLabs' clients: formats, bodies, queries, messages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from pydantic import Field

from gateway import errors
from gateway.audio import AudioFormat
from gateway.audio.stretch import MAX_SPEED, MIN_SPEED
from gateway.errors import Unsupported
from gateway.protocols.fields import LenientMessage, Name, Seed, Spoken
from gateway.requests import DEFAULT
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
