"""Wyoming, the socket protocol of Home Assistant: JSON lines and bytes over TCP, without keys.

Its clients speak as one tenant, which the settings name where keys are needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec
import structlog

from gateway import errors
from gateway.audio import PcmBlock
from gateway.errors import IdleTimeout, MessageTooBig, TooManyContexts
from gateway.keys import ANONYMOUS
from gateway.protocols.fields import text_of
from gateway.protocols.framing import Framing
from gateway.protocols.session import Leave, Session
from gateway.protocols.utterance import CLEAN_UP_S, Gone, StreamedText
from gateway.requests import DEFAULT, GatewayContext, Speech
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import AntiphonError, BadRequest, TextTooLong
from ttscommon.wire.replicas import Voice

VERSION: Final = "1.10.2"
_ATTRIBUTION: Final = {"name": "Antiphon", "url": ""}
_LISTS: Final = ("asr", "handle", "intent", "wake", "mic", "snd")
_WIDTH: Final = 2
# Of a text that has no sound.
_SILENT_HZ: Final = 24_000

Event: TypeAlias = tuple[str, Mapping[str, Any]]

log_ = structlog.get_logger(__name__)


class WyomingServer:
    """Has its `port` while it is entered, and listens there once something can be spoken.

    Home Assistant asks what there is when it connects, and never again: an answer without voices
    would leave it without any. It tries again after a refused connection.
    """

    def __init__(self, context: GatewayContext, host: str, port: int) -> None:
        self._context = context
        self._host = host
        self._wanted_port = port
        self._server: asyncio.Server | None = None
        self._opening: asyncio.Task[None] | None = None
        self._clients: set[asyncio.Task[Any]] = set()

    @property
    def port(self) -> int:
        assert self._server is not None
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def __aenter__(self) -> WyomingServer:
        limit = self._context.settings.max_message_bytes
        self._server = await asyncio.start_server(
            self._serve, self._host, self._wanted_port, limit=limit, start_serving=False
        )
        if self._context.catalogue.can_speak.is_set():
            await self._server.start_serving()
        else:
            self._opening = asyncio.create_task(self._open(self._server), name="wyoming")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        if self._opening is not None:
            await stop(self._opening)
        self._server.close()
        await stop(*self._clients, again_s=CLEAN_UP_S)

    async def _open(self, server: asyncio.Server) -> None:
        await self._context.catalogue.can_speak.wait()
        await server.start_serving()
        log_.info("wyoming.open", port=self.port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        assert self._server is not None
        if not self._server.is_serving():  # it came while this gateway left
            writer.close()
            return
        self._clients.add(task)
        limit = self._context.settings.max_message_bytes
        try:
            transport = WyomingTransport(reader, writer, limit)
            await WyomingSession(self._context, transport).serve()
        except asyncio.CancelledError:
            log_.debug("wyoming.stopped")
        except Exception as error:
            log_.error("wyoming.fault", exc_info=error)
        finally:
            self._clients.discard(task)
            writer.close()


class WyomingTransport:
    """Events of one TCP connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most_bytes: int
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._most_bytes = most_bytes

    @property
    def connected(self) -> bool:
        return not self._writer.is_closing()

    async def receive(self) -> Event:
        """An event's type and data; raises BadRequest or MessageTooBig for nonsense."""
        try:
            line = await self._reader.readline()
            if not line:
                raise Gone
            return await self._rest(_object(line))
        except (OSError, asyncio.IncompleteReadError) as gone:
            raise Gone from gone
        except ValueError as error:
            raise BadRequest("no such event") from error

    async def send(self, data: str | bytes) -> None:
        self._writer.write(data.encode() if isinstance(data, str) else data)
        try:
            await self._writer.drain()
        except OSError as gone:
            raise Gone(lost=True) from gone

    async def close(self, code: int) -> None:
        self._writer.close()

    async def _rest(self, head: dict[str, Any]) -> Event:
        sizes = [head.get("data_length") or 0, head.get("payload_length") or 0]
        if not all(isinstance(n, int) and 0 <= n <= self._most_bytes for n in sizes):
            raise MessageTooBig(f"an event is over {self._most_bytes} bytes")
        more = await self._reader.readexactly(sizes[0])
        await self._reader.readexactly(sizes[1])
        data = {**_object(head.get("data") or {}), **(_object(more) if more else {})}
        return str(head.get("type")), data


class AudioEvents(Framing):
    """A text's audio, between a start and a stop. `streamed`: the text came in parts."""

    def __init__(self, tell: Callable[[str], None], rate: int, *, streamed: bool) -> None:
        self._tell = tell
        self._format = {"rate": rate, "width": _WIDTH, "channels": 1}
        self._streamed = streamed
        self._started = False

    def audio(self, speech: Speech, piece: PcmBlock) -> bytes:
        if not piece.data:
            return b""
        self._start()
        return event("audio-chunk", self._format, piece.data)

    def end(self, speech: Speech) -> str:
        self._start()
        return self._stop()

    def failed(self, speech: Speech, error: AntiphonError) -> str:
        self._tell(_error(error))
        return self.end(speech)

    def nothing(self) -> str:
        """Of a text that was refused: its client waits for the same events."""
        return event("audio-start", self._format).decode() + self._stop()

    def _start(self) -> None:
        if not self._started:
            self._started = True
            self._tell(event("audio-start", self._format).decode())

    def _stop(self) -> str:
        stopped = event("audio-stop", {})
        if self._streamed:
            stopped += event("synthesize-stopped", {})
        return stopped.decode()


class WyomingSession(Session[Event, AudioEvents]):
    """One connection: events in, speech out, one text after another."""

    def __init__(self, context: GatewayContext, transport: WyomingTransport) -> None:
        super().__init__(transport, context)
        self._streamed: StreamedText[AudioEvents] | None = None
        self._ignoring = False
        self._refusals: dict[StreamedText[AudioEvents], list[str]] = {}

    async def parse(self, frame: Event) -> Event:
        return frame

    def fatal(self, error: AntiphonError) -> bool:
        """An event that is understood never ends the connection."""
        return False

    async def take(self, message: Event) -> None:
        kind, data = message
        match kind:
            case "describe":
                await self._describe()
            case "ping":
                self._tell("pong", {"text": data.get("text")})
            case "synthesize-start":
                self._end_stream()
                self._ignoring = True
                self._streamed = await self._begin(data, streamed=True)
                self._ignoring = False
            case "synthesize-stop":
                self._end_stream()
            case "synthesize-chunk" if self._streamed is not None:
                self._add(self._streamed, text_of(data))
            case "synthesize" if self._streamed is None and not self._ignoring:
                text = text_of(data)
                utterance = await self._begin(data)
                self._add(utterance, text)
                utterance.text.finish()

    async def _describe(self) -> None:
        """Hang up where the last model is gone: it is asked again, and an empty list is kept."""
        told = await info(self.context)
        if not told["tts"]:
            raise Leave
        self._tell("info", told)

    def _add(self, utterance: StreamedText[AudioEvents], text: str) -> None:
        with contextlib.suppress(TextTooLong):  # which the utterance itself ends with
            utterance.text.add(text)

    def _end_stream(self) -> None:
        self._ignoring = False
        if self._streamed is not None:
            self._streamed.text.finish()
            self._streamed = None

    async def _begin(
        self, data: Mapping[str, Any], *, streamed: bool = False
    ) -> StreamedText[AudioEvents]:
        """A text that is spoken when those before it have been."""
        wanted = data.get("voice")
        asked = wanted if isinstance(wanted, dict) else {}
        voice, language = _text_in(asked, "name") or DEFAULT, _text_in(asked, "language")
        if len(self.turns) >= self.settings.max_queued_requests:
            raise TooManyContexts("too many texts wait already")
        tenant = self.settings.wyoming_tenant or ANONYMOUS
        models = await self.context.catalogue.models()
        having = (one.name for one in models.values() if voice in {v.id for v in one.voices})
        spec = await self.context.spec(
            tenant, model=next(having, DEFAULT), voice=voice, language=language, names="any"
        )
        framing = AudioEvents(self.outbox.put, spec.sample_rate, streamed=streamed)
        utterance = self.begin(spec, framing)
        self.enqueue(utterance)
        return utterance

    def over(self, utterance: StreamedText[AudioEvents], error: AntiphonError | None) -> None:
        super().over(utterance, error)
        for told in self._refusals.pop(utterance, ()):
            self.put(told)

    def refused(self, error: AntiphonError, message: Event | None) -> None:
        """An error at once; a text that was refused ends when those before it have."""
        self.put(_error(error))
        kind = None if message is None else message[0]
        if kind not in ("synthesize", "synthesize-start"):
            return
        told = AudioEvents(self.put, _SILENT_HZ, streamed=kind != "synthesize").nothing()
        if (last := self.turns.last) is None:
            self.put(told)
        elif (
            len(waiting := self._refusals.setdefault(last, [])) < self.settings.max_queued_requests
        ):
            waiting.append(told)
        else:
            self.fail(error)

    def failed(self, error: AntiphonError) -> None:
        """Its clients expect no word when nothing has been said for long."""
        if not isinstance(error, IdleTimeout):
            self.refused(error, None)

    def _tell(self, kind: str, data: Mapping[str, Any]) -> None:
        self.put(event(kind, data).decode())


def _error(error: AntiphonError) -> str:
    told = errors.body(error)
    return event("error", {"text": told["message"], "code": told["code"]}).decode()


def event(kind: str, data: Mapping[str, Any], payload: bytes = b"") -> bytes:
    """One event: a line, its data, its payload."""
    body = json.dumps(data).encode()
    head: dict[str, Any] = {"type": kind, "version": VERSION, "data_length": len(body)}
    if payload:
        head["payload_length"] = len(payload)
    return json.dumps(head).encode() + b"\n" + body + payload


def _text_in(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    return value if isinstance(value, str) and value else None


async def info(context: GatewayContext) -> dict[str, Any]:
    """What this server can speak."""
    known = {"description": "Antiphon", "attribution": _ATTRIBUTION, "installed": True}
    programs = [
        {
            **known,
            "name": model.name,
            "version": "1",
            "supports_synthesize_streaming": True,
            "voices": [
                {
                    **known,
                    "name": voice.id,
                    "description": _described(voice),
                    "version": "1",
                    "languages": list(voice.spoken),
                    "speakers": None,
                }
                for voice in model.voices
            ],
        }
        for model in (await context.catalogue.models()).values()
    ]
    return {"tts": programs, **{name: [] for name in _LISTS}}


def _described(voice: Voice) -> str:
    """What a menu shows; the protocol has no field for a gender."""
    return f"{voice.name} ({voice.gender})" if voice.gender else voice.name


def _object(data: Any) -> dict[str, Any]:
    """Raises ValueError."""
    try:
        found = msgspec.json.decode(data) if isinstance(data, bytes) else data
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError("not JSON, or nested too deep") from error
    if not isinstance(found, dict):
        raise ValueError("a JSON object is expected")
    return found
