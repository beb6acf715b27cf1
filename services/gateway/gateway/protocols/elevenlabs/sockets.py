"""The two sockets: one text a connection, and many contexts a connection."""

from __future__ import annotations

import base64
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeGuard

from starlette.websockets import WebSocket

from gateway import errors
from gateway.audio import AudioFormat, Piece
from gateway.errors import InvalidApiKey, TooManyContexts
from gateway.protocols.elevenlabs.fields import (
    Alignment,
    error_shape,
    parse_format,
    settings_of,
    text_of,
)
from gateway.protocols.shared.credentials import key_of, tenant_of
from gateway.protocols.shared.shapes import ErrorShape
from gateway.protocols.shared.sockets import Leave, VendorSession, encode
from gateway.protocols.shared.utterance import Utterance
from gateway.requests import DEFAULT, GatewayContext
from ttscommon.wire.errors import AntiphonError, BadRequest

_DEFAULT_CONTEXT: Final = "default"
_LONGEST_IDLE_S: Final = 180.0
_POLICY: Final = 1008
_TRUE: Final = frozenset({"true", "1"})


@dataclass
class Voiced:
    """A context: what is spoken, and how its characters are timed."""

    utterance: Utterance
    alignment: Alignment


class _Speaking(VendorSession):
    """What both sockets have in common."""

    shape: ClassVar[ErrorShape] = staticmethod(error_shape)

    def __init__(self, socket: WebSocket, context: GatewayContext) -> None:
        super().__init__(socket, context)
        query = socket.query_params
        self._voice_id = str(socket.path_params.get("voice_id", DEFAULT))
        self._model_id = query.get("model_id", DEFAULT)
        self._output = query.get("output_format")
        self._sentences = query.get("auto_mode", "").lower() in _TRUE
        self._relative = query.get("sync_alignment", "").lower() not in _TRUE
        self._audio = AudioFormat()
        self._rate = 0
        self._tenant: str | None = None
        if (wished := query.get("inactivity_timeout", "")).isdigit():
            self.idle_s = max(1.0, min(float(wished), _LONGEST_IDLE_S))

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
            names="any",
        )

    async def _begin(self, message: Mapping[str, Any]) -> Voiced:
        """A new context, as its first message wants it."""
        if self._tenant is None:
            self._tenant = self.context.keys.tenant(_key(message))
        spec = await self._spec(settings_of(message).speed)
        utterance = Utterance(self.context, spec, self._audio, self.outbox, self)
        self.utterances.add(utterance)
        utterance.start()
        return Voiced(utterance, Alignment(relative=self._relative))

    @abstractmethod
    def audio(self, utterance: Utterance, piece: Piece) -> str: ...

    @abstractmethod
    def over(self, utterance: Utterance, error: AntiphonError | None) -> None: ...

    def _write(self, voiced: Voiced, message: Mapping[str, Any]) -> None:
        """The text of a message. A lone space only keeps the connection alive."""
        text = text_of(message)
        flush = message.get("flush") is True
        if text.strip():
            voiced.utterance.text.add(text)
        if (self._sentences and text.strip()) or flush:
            voiced.utterance.text.boundary()
        elif text and not text.strip() and voiced.utterance.text.characters:
            voiced.utterance.text.add(text)

    def _frame(self, voiced: Voiced, piece: Piece) -> dict[str, Any] | None:
        if not piece.data and not piece.words:
            return None
        alignments = voiced.alignment.fields(piece.words, ("alignment", "normalizedAlignment"))
        audio = base64.b64encode(piece.data).decode() if piece.data else None
        return {"audio": audio, "isFinal": None, **alignments}


class StreamInput(_Speaking):
    """`stream-input`: an empty text ends the input, and the answer ends the connection."""

    _voiced: Voiced | None = None

    async def take(self, message: Mapping[str, Any]) -> None:
        if self._voiced is None:
            self._voiced = await self._begin(message)
        text = self._voiced.utterance.text
        if text.complete:
            return
        if message.get("text") == "":
            text.finish()
        else:
            self._write(self._voiced, message)

    def audio(self, utterance: Utterance, piece: Piece) -> str:
        assert self._voiced is not None
        frame = self._frame(self._voiced, piece)
        return encode(frame) if frame is not None else ""

    def over(self, utterance: Utterance, error: AntiphonError | None) -> None:
        self.finished(utterance)
        if error is not None:
            self.refused(error, {})
            return
        last = {"audio": None, "isFinal": True, "alignment": None, "normalizedAlignment": None}
        self.tell(last)
        self.leave()

    def refused(self, error: AntiphonError, message: Mapping[str, Any]) -> None:
        told = errors.body(error)
        self.tell({"message": told["message"], "error": told["code"], "code": _POLICY})
        self.leave(errors.edge(error).close or _POLICY)


class MultiStreamInput(_Speaking):
    """`multi-stream-input`: contexts that do not wait for each other."""

    def __init__(self, socket: WebSocket, context: GatewayContext) -> None:
        super().__init__(socket, context)
        self._contexts: dict[str, Voiced] = {}
        self._named: dict[Utterance, tuple[str, Voiced]] = {}
        self._closing = False

    async def take(self, message: Mapping[str, Any]) -> None:
        if message.get("close_socket") is True:
            self._close()
            return
        name = _context_id(message)
        if name is None and not text_of(message):
            return  # keeps the connection alive and opens nothing
        name = name or _DEFAULT_CONTEXT
        voiced = self._contexts.get(name)
        if voiced is None:
            if message.get("close_context") is True or not _opens(message):
                return
            voiced = await self._open(name, message)
        self._write(voiced, message)
        if message.get("close_context") is True:
            voiced.utterance.text.finish()
            # Its name may be used again at once; its audio goes on.
            del self._contexts[name]

    async def _open(self, name: str, message: Mapping[str, Any]) -> Voiced:
        if len(self.utterances) >= self.settings.max_contexts:
            raise TooManyContexts(f"at most {self.settings.max_contexts} contexts may be open")
        voiced = await self._begin(message)
        self._contexts[name] = voiced
        self._named[voiced.utterance] = (name, voiced)
        return voiced

    def _close(self) -> None:
        self._closing = True
        for voiced in self._contexts.values():
            voiced.utterance.text.finish()
        self._contexts.clear()
        if not self.utterances:
            raise Leave

    def audio(self, utterance: Utterance, piece: Piece) -> str:
        name, voiced = self._named[utterance]
        frame = self._frame(voiced, piece)
        return encode({"contextId": name, **frame}) if frame is not None else ""

    def over(self, utterance: Utterance, error: AntiphonError | None) -> None:
        name, voiced = self._named.pop(utterance)
        if self._contexts.get(name) is voiced:
            del self._contexts[name]
        if error is not None:
            self.refused(error, {"context_id": name})
        else:
            self.tell({"isFinal": True, "contextId": name})
        self.finished(utterance)
        if self._closing and not self.utterances:
            self.leave()

    def refused(self, error: AntiphonError, message: Mapping[str, Any]) -> None:
        told = errors.body(error)
        name = _given_id(message)
        about = {"contextId": name} if _is_id(name) else {}
        self.tell({"error": told["code"], "message": told["message"], "code": _POLICY, **about})


def _opens(message: Mapping[str, Any]) -> bool:
    """Whether there is a context in a message: LiveKit flushes and keeps alive closed ones."""
    return bool(text_of(message))


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
