"""`text-to-dialogue/multi-stream-input`: contexts whose text comes as inputs of a dialogue.

Its messages are those of `multi-stream-input` with other names. A context speaks with one voice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.websockets import WebSocket

from gateway.protocols.elevenlabs.sockets import MultiStreamInput, Timed
from gateway.protocols.shared.sockets import JsonObject, encode
from gateway.requests import GatewayContext
from ttscommon.wire.errors import BadRequest

_NAMES = {
    "contextId": "context_id",
    "isFinal": "is_final",
    "normalizedAlignment": "normalized_alignment",
    "charStartTimesMs": "char_start_times_ms",
    "charDurationsMs": "char_durations_ms",
}


def _renamed(told: Any) -> Any:
    """In snake case."""
    if isinstance(told, Mapping):
        return {_NAMES.get(name, name): _renamed(value) for name, value in told.items()}
    return told


class DialogueTimed(Timed):
    """The same, in snake case."""

    def encoded(self, told: JsonObject) -> str:
        return encode(_renamed(told))


class DialogueInput(MultiStreamInput):
    """`inputs` are the text. The context speaks with the first voice that is named for it."""

    framing = DialogueTimed

    def __init__(self, socket: WebSocket, context: GatewayContext) -> None:
        super().__init__(socket, context)
        # What a context's first message says, which may come before its text.
        self._opening: dict[str, JsonObject] = {}

    async def take(self, message: JsonObject) -> None:
        if message.get("keep_alive") is True:
            return
        name = str(message.get("context_id", ""))
        if message.get("voices") and "inputs" not in message:
            if len(self._opening) < self.settings.max_contexts:
                self._opening[name] = message
            return
        if (voice := _voice(self._opening.get(name, {}), message)) is not None:
            self._voice_id = voice
        settings = self._opening.get(name, {}).get("voice_settings", {})
        await super().take({"voice_settings": settings, **message, **_text(message)})
        if message.get("close_context") is True:
            self._opening.pop(name, None)

    def tell(self, message: JsonObject) -> None:
        super().tell(_renamed(message))


def inputs_of(message: JsonObject) -> list[Mapping[str, Any]]:
    inputs = message.get("inputs", [])
    if not isinstance(inputs, list) or not all(isinstance(one, Mapping) for one in inputs):
        raise BadRequest("'inputs': a list of texts and voices is expected", param="inputs")
    return inputs


def _text(message: JsonObject) -> dict[str, str]:
    """What its inputs say, as other sockets have it; raises BadRequest."""
    texts = [one.get("text", "") for one in inputs_of(message)]
    if not all(isinstance(text, str) for text in texts):
        raise BadRequest("'inputs': a text is a string", param="inputs")
    return {"text": " ".join(texts)} if texts else {}


def _voice(opening: JsonObject, message: JsonObject) -> str | None:
    named = [one.get("voice_id") for one in inputs_of(message)]
    voices = opening.get("voices", [])
    named += voices if isinstance(voices, list) else []
    return next((one for one in named if isinstance(one, str)), None)
