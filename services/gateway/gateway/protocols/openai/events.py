"""`stream_format: "sse"`: audio as server-sent events, and what was used at the end."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from gateway import errors
from gateway.audio import PcmBlock
from gateway.protocols.framing import Framing
from gateway.requests import Speech
from ttscommon.wire.errors import AntiphonError


class SpeechEvents(Framing):
    """OpenAI's `speech.audio.delta` and `speech.audio.done`.

    `characters`: of the text. They count as input tokens, and frames of the model as output
    tokens: what a deployment spends.
    """

    media_type = "text/event-stream"
    blames = "input"

    def __init__(self, characters: int) -> None:
        self._characters = characters

    def audio(self, speech: Speech, piece: PcmBlock) -> bytes:
        if not piece.data:
            return b""
        audio = base64.b64encode(piece.data).decode()
        return event({"type": "speech.audio.delta", "audio": audio})

    def end(self, speech: Speech) -> bytes:
        frames = round(
            speech.delivery.duration_s * speech.stretch * speech.spec.model.frame_rate_hz
        )
        usage = {
            "input_tokens": self._characters,
            "output_tokens": frames,
            "total_tokens": self._characters + frames,
        }
        return event({"type": "speech.audio.done", "usage": usage})

    def failed(self, speech: Speech, error: AntiphonError) -> bytes:
        return event({"type": "error", "error": errors.body(error)})


def event(content: dict[str, Any]) -> bytes:
    """One line of data and an empty one."""
    return b"data: " + msgspec.json.encode(content) + b"\n\n"
