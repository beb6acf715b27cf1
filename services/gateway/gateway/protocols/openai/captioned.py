"""`POST /dev/captioned_speech`: audio and the times of its words, as Kokoro-FastAPI has it."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from gateway import errors
from gateway.audio import PcmBlock
from gateway.protocols.framing import Framing
from gateway.protocols.shared.wholejson import WholeJson
from gateway.requests import Speech
from ttscommon.wire.errors import AntiphonError
from ttscommon.wire.messages import WordTime


class CaptionLines(Framing):
    """One JSON object a line: audio, and the words that begin with it."""

    media_type = "application/json"
    blames = "input"

    def __init__(self, audio_format: str) -> None:
        self._format = audio_format

    def audio(self, speech: Speech, piece: PcmBlock) -> bytes:
        if not piece.data and not piece.words:
            return b""
        audio = base64.b64encode(piece.data).decode()
        told = {"audio": audio, "audio_format": self._format, "timestamps": _times(piece.words)}
        return msgspec.json.encode(told) + b"\n"

    def failed(self, speech: Speech, error: AntiphonError) -> bytes:
        return msgspec.json.encode({"error": errors.body(error)}) + b"\n"


class CaptionedWhole(WholeJson):
    """The same as one object."""

    field = "audio"

    def __init__(self, audio_format: str) -> None:
        super().__init__()
        self._format = audio_format
        self._words: list[dict[str, Any]] = []

    def audio(self, speech: Speech, piece: PcmBlock) -> bytes:
        self._words += _times(piece.words)
        return super().audio(speech, piece)

    def beside(self) -> dict[str, Any]:
        return {"audio_format": self._format, "timestamps": self._words}


def _times(words: tuple[WordTime, ...]) -> list[dict[str, Any]]:
    return [
        {"word": w.word, "start_time": round(w.start_s, 4), "end_time": round(w.end_s, 4)}
        for w in words
    ]
