"""The two sockets: one text a connection, and many contexts a connection."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeAlias, TypeGuard

from starlette.websockets import WebSocket

from gateway import errors
from gateway.audio import AudioFormat, PcmBlock
from gateway.audio.pipe import SILENCE_S
from gateway.errors import InvalidApiKey
from gateway.protocols.elevenlabs.alignment import Alignment
from gateway.protocols.elevenlabs.http import (
    VoiceSettings,
    parse_format,
)
from gateway.protocols.fields import text_of
from gateway.protocols.framing import Framing
from gateway.protocols.session import NORMAL
from gateway.protocols.shared.context import key_of, max_wait_s, tenant_of
from gateway.protocols.shared.sockets import JsonObject, JsonSession, encode
from gateway.protocols.utterance import StreamedText
from gateway.requests import DEFAULT, GatewayContext, Speech
from ttscommon.wire.errors import AntiphonError, BadRequest

_DEFAULT_CONTEXT: Final = "default"
_LONGEST_IDLE_S: Final = 180.0
_POLICY: Final = 1008
_TRUE: Final = frozenset({"true", "1"})


class Timed(Framing):
    """A text's audio, and the times of its characters. `about`: what names it, first of all.

    `flushed`: all of its text so far was followed by a flush.
    """

    silence_s = SILENCE_S
    flushed = True

    def __init__(self, *, relative: bool, about: Mapping[str, str] = MappingProxyType({})) -> None:
        self._alignment = Alignment(relative=relative)
        self._about = about

    def audio(self, speech: Speech, piece: PcmBlock) -> str:
        self._alignment.add(piece.words)
        return self._message(base64.b64encode(piece.data).decode() if piece.data else None)

    def last(self, speech: Speech, samples: int) -> str:
        self._alignment.end(samples / speech.sample_rate)
        return self._message(None)

    def _message(self, audio: str | None) -> str:
        written, spoken = self._alignment.milliseconds()
        if audio is None and written is None:
            return ""
        alignments = {"alignment": written, "normalizedAlignment": spoken}
        return self.encoded({**self._about, "audio": audio, "isFinal": None, **alignments})

    def encoded(self, told: JsonObject) -> str:
        return encode(told)

    def end(self, speech: Speech) -> str:
        if self._about:
            return self.encoded({"isFinal": True, **self._about})
        last = {"audio": None, "isFinal": True, "alignment": None, "normalizedAlignment": None}
        return self.encoded(last)

    def failed(self, speech: Speech, error: AntiphonError) -> str:
        about = self._about
        return self.encoded(_context_error(error, about) if about else text_error(error))


Spoken: TypeAlias = StreamedText[Timed]


class Speaking(JsonSession[Timed]):
    """What all sockets have in common."""

    framing: ClassVar[type[Timed]] = Timed

    def __init__(self, socket: WebSocket, context: GatewayContext) -> None:
        super().__init__(socket, context)
        query = socket.query_params
        self._voice_id = str(socket.path_params.get("voice_id", DEFAULT))
        self._model_id = query.get("model_id", DEFAULT)
        self._output = query.get("output_format")
        self._language = query.get("language_code") or None
        self._sentences = query.get("auto_mode", "").lower() in _TRUE
        self._relative = query.get("sync_alignment", "").lower() not in _TRUE
        self._audio = AudioFormat()
        self._rate = 0
        self._tenant: str | None = None
        if (asked := query.get("inactivity_timeout", "")).isdigit():
            self.idle_s = max(1.0, min(float(asked), _LONGEST_IDLE_S))

    async def open(self) -> None:
        self._audio, self._rate = parse_format(self._output)
        # Without a key in the handshake, the first message of a context may bring it.
        if not self.context.keys.required or key_of(self.socket) is not None:
            self._tenant = tenant_of(self.context, self.socket)
        await self._spec(1.0)

    async def _spec(self, speed: float) -> Any:
        return await self.context.spec(
            self._tenant or "",
            model=self._model_id,
            voice=self._voice_id,
            sample_rate=self._rate,
            speed=speed,
            language=self._language,
            names="any",
            max_wait_s=max_wait_s(self.socket),
        )

    async def _begin(self, message: Mapping[str, Any], name: str | None = None) -> Spoken:
        """A new text, as its first message wants it; `name`: the context that it is."""
        if self._tenant is None:
            self._tenant = self.context.keys.tenant(_key(message))
        spec = await self._spec(VoiceSettings.parsed(message.get("voice_settings", {})).speed)
        about = {} if name is None else {"contextId": name}
        framing = self.framing(relative=self._relative, about=about)
        utterance = self.begin(spec, framing, self._audio, name)
        self.go(utterance)
        return utterance

    def go(self, utterance: Spoken) -> None:
        """It may be spoken."""
        self.start(utterance)

    def _write(self, utterance: Spoken, message: Mapping[str, Any]) -> None:
        """The text of a message. A lone space only keeps the connection alive."""
        text = text_of(message)
        flush = message.get("flush") is True
        utterance.framing.flushed = flush or (utterance.framing.flushed and not text.strip())
        if text.strip():
            utterance.text.add(text)
        if (self._sentences and text.strip()) or flush:
            utterance.text.boundary()
        elif text and not text.strip() and utterance.text.characters:
            utterance.text.add(text)


class StreamInput(Speaking):
    """`stream-input`: an empty text ends the input, and the answer ends the connection."""

    _spoken: Spoken | None = None

    async def take(self, message: JsonObject) -> None:
        if self._spoken is None:
            self._spoken = await self._begin(message)
        text = self._spoken.text
        if text.complete:
            return
        if message.get("text") == "":
            text.finish()
        else:
            self._write(self._spoken, message)

    def over(self, utterance: Spoken, error: AntiphonError | None) -> None:
        super().over(utterance, error)
        self.leave(NORMAL if error is None else close_code(error))

    def refused(self, error: AntiphonError, message: JsonObject | None) -> None:
        self.tell(text_error(error))
        self.leave(close_code(error))


class MultiStreamInput(Speaking):
    """`multi-stream-input`: contexts that do not wait for each other.

    A context that is closed speaks what it was told to flush. With text that was not flushed it is
    one that its client has interrupted, and so it is when it is closed once more: it ends at once,
    because clients take word times that still come for those of the next context.
    """

    async def take(self, message: JsonObject) -> None:
        if message.get("close_socket") is True:
            self._close()
            return
        name = _context_id(message)
        if name is None and not text_of(message):
            return  # keeps the connection alive and opens nothing
        name = name or _DEFAULT_CONTEXT
        spoken = self.contexts.get(name)
        closes = message.get("close_context") is True
        if spoken is None:
            if closes:
                await self._stop(self._closed(name))
            if closes or not text_of(message):  # LiveKit flushes and keeps alive closed ones
                return
            self.require_room()
            spoken = await self._begin(message, name)
        self._write(spoken, message)
        if closes:
            # Its name may be used again at once.
            del self.contexts[name]
            await self._end(spoken)

    async def _end(self, spoken: Spoken) -> None:
        if spoken.framing.flushed:
            spoken.text.finish()
        else:
            await self._stop([spoken])

    def _closed(self, name: str) -> list[Spoken]:
        """The contexts of this name that still speak though they were closed."""
        return [one for one in self.utterances if one.name == name and one.text.complete]

    async def _stop(self, unwanted: list[Spoken]) -> None:
        for spoken in unwanted:
            if await self.stop(spoken):
                self.put(spoken.framing.end(spoken.speech))  # which clients wait for
                self.finished(spoken)

    def _close(self) -> None:
        for spoken in self.contexts.values():
            spoken.text.finish()
        self.contexts.clear()
        self.close()

    def refused(self, error: AntiphonError, message: JsonObject | None) -> None:
        name = _given_id(message or {})
        self.tell(_context_error(error, {"contextId": name} if _is_id(name) else {}))


def text_error(error: AntiphonError) -> JsonObject:
    told = errors.body(error)
    return {"message": told["message"], "error": told["code"], "code": _POLICY}


def _context_error(error: AntiphonError, about: Mapping[str, str]) -> JsonObject:
    told = errors.body(error)
    return {"error": told["code"], "message": told["message"], "code": _POLICY, **about}


def close_code(error: AntiphonError) -> int:
    return errors.edge(error).close or _POLICY


def _given_id(message: Mapping[str, Any]) -> Any:
    return message.get("context_id", message.get("contextId"))


def _is_id(name: Any) -> TypeGuard[str]:
    return isinstance(name, str) and len(name) <= 256


def _context_id(message: Mapping[str, Any]) -> str | None:
    name = _given_id(message)
    if name is not None and not _is_id(name):
        raise BadRequest("'context_id': a short string is expected", param="context_id")
    return name


def _key(message: Mapping[str, Any]) -> str | None:
    for name in ("xi-api-key", "xi_api_key"):
        if isinstance(key := message.get(name), str):
            return key
    authorization = message.get("authorization", "")
    if isinstance(authorization, str) and authorization.lower().startswith("bearer "):
        return authorization[7:]
    raise InvalidApiKey("an API key is needed: header xi-api-key, or in the first message")
