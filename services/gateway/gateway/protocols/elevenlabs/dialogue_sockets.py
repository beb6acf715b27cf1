"""Dialogues on sockets: one a connection, or contexts whose text comes as inputs of a dialogue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.websockets import WebSocket

from gateway.errors import TooManyContexts
from gateway.protocols.elevenlabs.sockets import (
    MultiStreamInput,
    Speaking,
    Spoken,
    Timed,
    close_code,
    text_error,
)
from gateway.protocols.session import NORMAL
from gateway.protocols.shared.sockets import JsonObject, encode
from gateway.requests import GatewayContext, Speech
from ttscommon.wire.errors import AntiphonError, BadRequest

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
        if (voice := _voice_of(self._opening.get(name, {}), message)) is not None:
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


def _voice_of(opening: JsonObject, message: JsonObject) -> str | None:
    named = [one.get("voice_id") for one in inputs_of(message)]
    voices = opening.get("voices", [])
    named += voices if isinstance(voices, list) else []
    return next((one for one in named if isinstance(one, str)), None)


class DialogueTurn(DialogueTimed):
    """What one voice says without a break."""

    def end(self, speech: Speech) -> str:
        return encode({"is_final_audio_for_turn": True})


class DialogueStream(Speaking):
    """`close_socket` ends the input, and the last turn's end the connection."""

    framing = DialogueTurn

    def __init__(self, socket: WebSocket, context: GatewayContext) -> None:
        super().__init__(socket, context)
        self._opening: JsonObject = {}
        self._open: Spoken | None = None
        self._closing = False

    async def take(self, message: JsonObject) -> None:
        if self._closing:
            return
        if not self._opening and "voices" in message:
            self._opening = message
            self._voice_id = _first_voice(message)
        for line in inputs_of(message):
            await self._line(line, message)
        if self._open is not None and message.get("flush") is True:
            self._write(self._open, {"flush": True})
        if message.get("close_socket") is True:
            self._close()

    async def _line(self, line: Mapping[str, Any], message: JsonObject) -> None:
        voice = line.get("voice_id", self._voice_id)
        if not isinstance(voice, str):
            raise BadRequest("'voice_id': a string is expected", param="inputs")
        if self._open is not None and (voice != self._voice_id or line.get("new_turn") is True):
            self._end_turn()
        self._voice_id = voice
        if self._open is None:
            if len(self.turns) >= self.settings.max_contexts:
                raise TooManyContexts(f"{self.settings.max_contexts} turns wait already")
            settings = self._opening.get("voice_settings", {})
            self._open = await self._begin({"voice_settings": settings, **message})
        self._write(self._open, line)

    def go(self, utterance: Spoken) -> None:
        """In its turn."""
        self.enqueue(utterance)

    def _end_turn(self) -> None:
        if self._open is not None:
            self._open.text.finish()
            self._open = None

    def _close(self) -> None:
        self._closing = True
        self._end_turn()
        if not len(self.turns):
            self._finish()

    def _finish(self) -> None:
        self.put(encode({"is_final": True}))
        self.leave(NORMAL)

    def over(self, utterance: Spoken, error: AntiphonError | None) -> None:
        if error is not None:
            self.turns.clear()
        super().over(utterance, error)
        if error is not None:
            self.leave(close_code(error))
        elif self._closing and not len(self.turns):
            self._finish()

    def refused(self, error: AntiphonError, message: JsonObject | None) -> None:
        self.tell(text_error(error))
        self.leave(close_code(error))


def _first_voice(opening: JsonObject) -> str:
    """The first of its voices; raises BadRequest."""
    voices = opening.get("voices")
    if not isinstance(voices, list) or not voices or not all(isinstance(v, str) for v in voices):
        raise BadRequest("'voices': a list of voice ids is expected", param="voices")
    return str(voices[0])
