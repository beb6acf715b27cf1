"""`text-to-dialogue/stream-input`: one dialogue a connection, whose lines come with their voices.

A line of another voice, or one that says `new_turn`, is a turn; turns are spoken one after another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.websockets import WebSocket

from gateway.errors import TooManyContexts
from gateway.protocols.elevenlabs.dialogue_socket import DialogueTimed, inputs_of
from gateway.protocols.elevenlabs.sockets import Speaking, Spoken, close_code, text_error
from gateway.protocols.session import NORMAL
from gateway.protocols.shared.sockets import JsonObject, encode
from gateway.protocols.utterance import Playlist
from gateway.requests import GatewayContext, Speech
from ttscommon.wire.errors import AntiphonError, BadRequest


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
        self._turns: Playlist[Any] = Playlist()
        self._open: Spoken | None = None
        self._closing = False

    async def take(self, message: JsonObject) -> None:
        if self._closing:
            return
        if not self._opening and "voices" in message:
            self._opening = message
            self._voice_id = _voice(message)
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
            if len(self._turns) >= self.settings.max_contexts:
                raise TooManyContexts(f"{self.settings.max_contexts} turns wait already")
            settings = self._opening.get("voice_settings", {})
            self._open = await self._begin({"voice_settings": settings, **message})
        self._write(self._open, line)

    def go(self, utterance: Spoken) -> None:
        """In its turn."""
        if self._turns.add(utterance):
            self.start(utterance)

    def _end_turn(self) -> None:
        if self._open is not None:
            self._open.text.finish()
            self._open = None

    def _close(self) -> None:
        self._closing = True
        self._end_turn()
        if not len(self._turns):
            self._finish()

    def _finish(self) -> None:
        self.put(encode({"is_final": True}))
        self.leave(NORMAL)

    def over(self, utterance: Spoken, error: AntiphonError | None) -> None:
        super().over(utterance, error)
        if error is not None:
            self.leave(close_code(error))
            return
        if (following := self._turns.over(utterance)) is not None:
            self.start(following)
        elif self._closing:
            self._finish()

    def refused(self, error: AntiphonError, message: JsonObject | None) -> None:
        self.tell(text_error(error))
        self.leave(close_code(error))


def _voice(opening: JsonObject) -> str:
    """The first of its voices; raises BadRequest."""
    voices = opening.get("voices")
    if not isinstance(voices, list) or not voices or not all(isinstance(v, str) for v in voices):
        raise BadRequest("'voices': a list of voice ids is expected", param="voices")
    return str(voices[0])
