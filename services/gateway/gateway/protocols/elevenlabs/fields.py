"""Fields of ElevenLabs' clients: formats, bodies, queries, messages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from pydantic import Field, ValidationError

from gateway import errors
from gateway.audio import AudioFormat
from gateway.audio.stretch import MAX_SPEED, MIN_SPEED
from gateway.errors import Unsupported
from gateway.protocols.fields import LenientMessage
from gateway.requests import DEFAULT
from ttscommon.wire.errors import AntiphonError, BadRequest
from ttscommon.wire.messages import WordTime

_DEFAULT_FORMAT: Final = "mp3_44100_128"
_FORMAT: Final = re.compile(r"^(mp3|pcm|ulaw|alaw|opus)_(\d{4,5})(?:_(\d{1,3}))?$")
_CODECS: Final = MappingProxyType(
    {"mp3": "mp3", "pcm": "pcm_s16le", "ulaw": "mulaw", "alaw": "alaw", "opus": "opus"}
)
_HIGHEST_HZ: Final = 48_000
_LOWEST_HZ: Final = 8_000


class VoiceSettings(LenientMessage):
    speed: float = Field(default=1.0, ge=MIN_SPEED, le=MAX_SPEED)


class TextBody(LenientMessage):
    """The body of every `text-to-speech` route."""

    text: str
    model_id: str = DEFAULT
    voice_settings: VoiceSettings = VoiceSettings()


def parse_body(data: bytes) -> TextBody:
    """Raises BadRequest."""
    try:
        return TextBody.model_validate_json(data)
    except ValidationError as error:
        raise errors.from_validation(error) from error


def settings_of(message: Mapping[str, Any]) -> VoiceSettings:
    """A message's `voice_settings`; raises BadRequest."""
    try:
        return VoiceSettings.model_validate(message.get("voice_settings", {}))
    except ValidationError as error:
        raise errors.from_validation(error) from error


def parse_format(name: str | None) -> tuple[AudioFormat, int]:
    """An `output_format` and its rate in Hz; raises Unsupported."""
    found = _FORMAT.match(name or _DEFAULT_FORMAT)
    if found is None or not _LOWEST_HZ <= int(found[2]) <= _HIGHEST_HZ:
        raise Unsupported(f"there is no output_format '{name}'", param="output_format")
    codec: Any = _CODECS[found[1]]
    bit_rate = 1000 * int(found[3]) if found[3] else None
    if bit_rate is not None and not 8_000 <= bit_rate <= 320_000:
        raise Unsupported(f"there is no output_format '{name}'", param="output_format")
    audio = AudioFormat(codec, bit_rate=bit_rate)
    return audio, audio.rate_for(int(found[2]))


def text_of(message: Mapping[str, Any]) -> str:
    """A message's text; raises BadRequest."""
    text = message.get("text", "")
    if not isinstance(text, str):
        raise BadRequest("'text': a string is expected", param="text")
    return text


def error_shape(error: AntiphonError, request_id: str) -> Mapping[str, Any]:
    told = errors.body(error)
    return {
        "detail": {"status": told["code"], "message": told["message"], "request_id": request_id}
    }


class Alignment:
    """Word times as times of characters, a space behind each word.

    `relative`: each alignment begins where the one before ended, else at the beginning.
    """

    def __init__(self, *, relative: bool) -> None:
        self._relative = relative
        self._end_s = 0.0

    def seconds(
        self, words: tuple[WordTime, ...], *, spoken: bool = False
    ) -> tuple[list[str], list[float], list[float]]:
        """Characters, as written or as `spoken`, their starts and their ends."""
        base_s = self._base_s
        chars: list[str] = []
        starts: list[float] = []
        ends: list[float] = []
        for word in words:
            text = word.spoken or word.word if spoken else word.word
            step_s = (word.end_s - word.start_s) / max(1, len(text))
            for index, char in enumerate(text):
                chars.append(char)
                starts.append(word.start_s + index * step_s - base_s)
                ends.append(word.start_s + (index + 1) * step_s - base_s)
            chars.append(" ")
            starts.append(word.end_s - base_s)
            ends.append(word.end_s - base_s)
        return chars, starts, ends

    def fields(self, words: tuple[WordTime, ...], names: tuple[str, str]) -> dict[str, Any]:
        """What the sockets call `names`: the text as it is written, and as it is spoken."""
        found = [self._milliseconds(words, spoken=spoken) for spoken in (False, True)]
        self._go_on(words)
        return dict(zip(names, found, strict=True))

    def of_http(self, words: tuple[WordTime, ...]) -> dict[str, Any]:
        """The two objects of `with-timestamps`; None without words."""
        found = [self._http(words, spoken=spoken) for spoken in (False, True)]
        self._go_on(words)
        return dict(zip(("alignment", "normalized_alignment"), found, strict=True))

    @property
    def _base_s(self) -> float:
        return self._end_s if self._relative else 0.0

    def _go_on(self, words: tuple[WordTime, ...]) -> None:
        if words:
            self._end_s = words[-1].end_s

    def _milliseconds(self, words: tuple[WordTime, ...], *, spoken: bool) -> dict[str, Any] | None:
        if not words:
            return None
        chars, starts, ends = self.seconds(words, spoken=spoken)
        return {
            "chars": chars,
            "charStartTimesMs": [round(1000 * s) for s in starts],
            "charDurationsMs": [
                round(1000 * e) - round(1000 * s) for s, e in zip(starts, ends, strict=True)
            ],
        }

    def _http(self, words: tuple[WordTime, ...], *, spoken: bool) -> dict[str, Any] | None:
        if not words:
            return None
        chars, starts, ends = self.seconds(words, spoken=spoken)
        return {
            "characters": chars,
            "character_start_times_seconds": [round(s, 4) for s in starts],
            "character_end_times_seconds": [round(e, 4) for e in ends],
        }
