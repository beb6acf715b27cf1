"""Wyoming, the socket protocol of Home Assistant: JSON lines and bytes over TCP, without keys.

Its clients speak as one tenant, which the settings name where keys are needed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import structlog

from gateway import errors
from gateway.admission import ANONYMOUS
from gateway.audio import AudioFormat, Outbox, Piece
from gateway.errors import MessageTooBig, TooManyContexts
from gateway.protocols.shared.utterance import Utterance
from gateway.requests import DEFAULT, GatewayContext
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import AntiphonError, BadRequest

VERSION: Final = "1.10.2"
_ATTRIBUTION: Final = {"name": "Antiphon", "url": ""}
_LISTS: Final = ("asr", "handle", "intent", "wake", "mic", "snd")
_WIDTH: Final = 2
_CLEAN_UP_S: Final = 6.0

log_ = structlog.get_logger(__name__)


class WyomingServer:
    """Listens while it is entered; `port` is where."""

    def __init__(self, context: GatewayContext, host: str, port: int) -> None:
        self._context = context
        self._host = host
        self._wanted_port = port
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[Any]] = set()

    @property
    def port(self) -> int:
        assert self._server is not None
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def __aenter__(self) -> WyomingServer:
        limit = self._context.settings.max_message_bytes
        self._server = await asyncio.start_server(
            self._serve, self._host, self._wanted_port, limit=limit
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await stop(*self._clients, again_s=_CLEAN_UP_S)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        try:
            await WyomingSession(self._context, reader, writer).run()
        except asyncio.CancelledError:
            log_.debug("wyoming.stopped")
        except Exception as error:
            log_.error("wyoming.fault", exc_info=error)
        finally:
            self._clients.discard(task)
            writer.close()


class WyomingSession:
    """One connection: events in, speech out, one text after another."""

    def __init__(
        self, context: GatewayContext, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        settings = context.settings
        self._context = context
        self._reader = reader
        self._writer = writer
        self._outbox = Outbox(settings.send_buffer_bytes, settings.slow_client_timeout_s)
        self._streamed: Utterance | None = None
        self._speaking: set[Utterance] = set()
        self._last: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Serve the client until it leaves."""
        sender = asyncio.create_task(self._outbox.send_all(self._transmit))
        reading = asyncio.create_task(self._read())
        try:
            await asyncio.wait((sender, reading), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await stop(reading, again_s=_CLEAN_UP_S)
            # Texts that wait for others end too: their listener has left.
            await asyncio.gather(*(u.cancel() for u in list(self._speaking)))
            self._outbox.finish()
            await asyncio.wait((sender,), timeout=1.0)
            await stop(sender, again_s=_CLEAN_UP_S)

    async def _read(self) -> None:
        while (event := await self._event()) is not None:
            try:
                await self._take(*event)
            except AntiphonError as error:
                self._tell_error(error)

    async def _event(self) -> tuple[str, Mapping[str, Any]] | None:
        """The next event's type and data; None when the client left or talks nonsense."""
        limit = self._context.settings.max_message_bytes
        try:
            async with asyncio.timeout(self._context.settings.idle_timeout_s):
                line = await self._reader.readline()
                if not line:
                    return None
                head = _object(line)
                sizes = [head.get("data_length") or 0, head.get("payload_length") or 0]
                if not all(isinstance(n, int) and 0 <= n <= limit for n in sizes):
                    raise MessageTooBig(f"an event is over {limit} bytes")
                more = await self._reader.readexactly(sizes[0])
                await self._reader.readexactly(sizes[1])
                data = {**_object(head.get("data") or {}), **(_object(more) if more else {})}
                return str(head.get("type")), data
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            return None
        except (ValueError, AntiphonError) as error:
            told = error if isinstance(error, AntiphonError) else BadRequest("no such event")
            self._tell_error(told)
            return None

    async def _take(self, kind: str, data: Mapping[str, Any]) -> None:
        match kind:
            case "describe":
                self._tell("info", await info(self._context))
            case "ping":
                self._tell("pong", {"text": data.get("text")})
            case "synthesize" if self._streamed is None:
                utterance = await self._begin(data)
                utterance.text.add(_text(data))
                utterance.text.finish()
            case "synthesize-start":
                await self._end_stream()
                self._streamed = await self._begin(data, streamed=True)
            case "synthesize-chunk" if self._streamed is not None:
                self._streamed.text.add(_text(data))
            case "synthesize-stop":
                await self._end_stream()

    async def _end_stream(self) -> None:
        if self._streamed is not None:
            self._streamed.text.finish()
            self._streamed = None

    async def _begin(self, data: Mapping[str, Any], *, streamed: bool = False) -> Utterance:
        """A text that is spoken when those before it have been."""
        wanted = data.get("voice")
        name = wanted.get("name") if isinstance(wanted, dict) else None
        voice = name if isinstance(name, str) and name else DEFAULT
        if len(self._speaking) >= self._context.settings.max_queued_requests:
            raise TooManyContexts("too many texts wait already")
        tenant = self._context.settings.wyoming_tenant or ANONYMOUS
        spec = await self._context.spec(tenant, voice=voice, names="any")
        frames = _Frames(self, spec.sample_rate, streamed=streamed)
        utterance = Utterance(
            self._context, spec, AudioFormat(), self._outbox, frames, silence_s=0.0
        )
        self._speaking.add(utterance)
        self._last = asyncio.create_task(self._after(self._last, utterance))
        return utterance

    async def _after(self, before: asyncio.Task[None] | None, utterance: Utterance) -> None:
        if before is not None:
            await asyncio.wait((before,))
        if utterance in self._speaking:
            await asyncio.wait((utterance.start(),))
        self._speaking.discard(utterance)

    def _tell(self, kind: str, data: Mapping[str, Any]) -> None:
        self._outbox.put(event(kind, data).decode())

    def _tell_error(self, error: AntiphonError) -> None:
        told = errors.body(error)
        self._tell("error", {"text": told["message"], "code": told["code"]})

    async def _transmit(self, data: str | bytes) -> None:
        self._writer.write(data.encode() if isinstance(data, str) else data)
        await self._writer.drain()


class _Frames:
    """An utterance as Wyoming's audio events."""

    def __init__(self, session: WyomingSession, rate: int, *, streamed: bool) -> None:
        self._session = session
        self._format = {"rate": rate, "width": _WIDTH, "channels": 1}
        self._streamed = streamed
        self._started = False

    def audio(self, utterance: Utterance, piece: Piece) -> bytes:
        if not piece.data:
            return b""
        self._start()
        return event("audio-chunk", self._format, piece.data)

    def over(self, utterance: Utterance, error: AntiphonError | None) -> None:
        if error is not None:
            self._session._tell_error(error)
        self._start()
        self._session._tell("audio-stop", {})
        if self._streamed:
            self._session._tell("synthesize-stopped", {})

    def _start(self) -> None:
        if not self._started:
            self._started = True
            self._session._tell("audio-start", self._format)


def event(kind: str, data: Mapping[str, Any], payload: bytes = b"") -> bytes:
    """One event: a line, its data, its payload."""
    body = json.dumps(data).encode()
    head: dict[str, Any] = {"type": kind, "version": VERSION, "data_length": len(body)}
    if payload:
        head["payload_length"] = len(payload)
    return json.dumps(head).encode() + b"\n" + body + payload


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
                    "description": voice.name,
                    "version": "1",
                    "languages": [voice.language],
                    "speakers": None,
                }
                for voice in model.voices
            ],
        }
        for model in (await context.catalogue.models()).values()
    ]
    return {"tts": programs, **{name: [] for name in _LISTS}}


def _object(data: Any) -> dict[str, Any]:
    """Raises ValueError."""
    try:
        found = msgspec.json.decode(data) if isinstance(data, bytes) else data
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError("not JSON, or nested too deep") from error
    if not isinstance(found, dict):
        raise ValueError("a JSON object is expected")
    return found


def _text(data: Mapping[str, Any]) -> str:
    text = data.get("text", "")
    if not isinstance(text, str):
        raise BadRequest("'text': a string is expected", param="text")
    return text
