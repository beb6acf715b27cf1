"""A gateway over a real broker, with one small stage behind it that stands for both."""

import asyncio
import base64
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest
import uvicorn
from websockets.asyncio.client import ClientConnection, connect

from antiphon.stack import LocalStack
from gateway.app import Gateway, create_gateway
from gateway.protocols.native import STREAM_PATH
from gateway.service import listen, server
from gateway.settings import GatewaySettings
from tests.connections import make_streams
from tests.waits import TIMEOUT_S
from ttscommon.bus import AudioWriter, Bus
from ttscommon.cluster.worker import Job, Worker
from ttscommon.process.metrics import GatewayMetrics, Metrics
from ttscommon.wire import subjects
from ttscommon.wire.messages import (
    AudioChunk,
    Checkpoint,
    CodecChunk,
    End,
    Message,
    Playback,
    SaidText,
    Spent,
    Tensor,
    TextPiece,
    WordTime,
)
from ttscommon.wire.parameters import Parameter
from ttscommon.wire.replicas import Model, Replica, Voice
from ttscommon.wire.subjects import AUDIO, CODES, TALKER, TEXT, VOCODER, Stage

RATE = 16_000
SAMPLES_PER_CHAR = 160
MOST_CHARS = 2000
MODEL = Model(
    "vesper",
    "vesper",
    RATE,
    25.0,
    (
        Voice("slt", "Slt", "en-US", "female"),
        Voice("awb", "Awb", "en-GB", "male"),
        Voice("vesper", "Vesper", "en-US"),
        Voice("vesper-low", "Vesper Low", "en-US"),
    ),
    accepts=("turns", "speaker", "speech"),
    parameters=(Parameter("min_p", "number", 0.0, "A share.", 0.0, 1.0),),
)

Script = Callable[["Performance"], Awaitable[None]]


def sound_of(text: str, seed: int = 0) -> np.ndarray[Any, np.dtype[np.int16]]:
    """What the stage says: every character has samples of its own."""
    codes = np.array([(ord(char) + seed) % 30_000 + 1 for char in text], np.int16)
    return np.repeat(codes, SAMPLES_PER_CHAR)


@dataclass
class Performance:
    """One job on the stage, and the verbs of a script."""

    bus: Bus
    job: Job
    writer: AudioWriter
    lead: int = 0
    playback: list[float] = field(default_factory=list)
    said: list[Any] = field(default_factory=list)

    async def text(self) -> AsyncIterator[str]:
        """The request's text, piece by piece, as it comes."""
        yield self.job.request.text
        if not self.job.request.text_final:
            async with self.bus.reader(TEXT, self.job.request_id) as reader:
                async for record in reader:
                    if isinstance(record, TextPiece):
                        yield record.text

    async def say(self, text: str, word: bool = False, said: tuple[SaidText, ...] = ()) -> None:
        pcm = sound_of(text, self.job.request.seed)
        start = self.writer.position
        times = start / RATE, (start + len(pcm)) / RATE
        words = (WordTime(text, *times, text.lower(), 0, len(text)),) if word else ()
        spent = () if start else (Spent("talker", 0.002, 0.001), Spent("vocoder", 0.001, 0.001))
        sound, lead = Tensor.of(pcm), Checkpoint(lead=self.lead)
        chunk = AudioChunk(self.job.request_id, start, RATE, sound, words, spent, lead, said=said)
        self.said.append(pcm)
        await self.writer.put(chunk)

    async def end(
        self, outcome: Any = "ok", code: str = "", message: str = "", param: str | None = None
    ) -> None:
        again, position = self.job.request.for_remaking(), self.writer.position
        end = End(self.job.request_id, position, outcome, code, message, param, again)
        await self.writer.end(end)

    async def log_codes(self) -> None:
        """The talker's part, as far as a gateway looks at it: there are codes."""
        writer = await self.bus.writer(CODES, self.job.request_id, self.job.epoch)
        frame = {"codes": Tensor.of(np.zeros((1, 1), np.int16))}
        await writer.put(CodecChunk(self.job.request_id, 0, frame))
        await writer.end(End(self.job.request_id, 1, "ok"))
        await writer.close()

    async def sound_again(self, job: Job) -> None:
        """The vocoder's part for a listener who comes when all was said."""
        # The log is of an epoch of the talkers' queue, whose numbers may be far ahead.
        epoch = max(job.epoch, self.job.epoch)
        writer = await self.bus.audio_writer(job.request_id, epoch, fresh=False)
        assert writer.remaking is not None
        if writer.listener is not None:
            await writer.begin(writer.listener)
            pcm = np.concatenate(self.said)[writer.position :]
            for start in range(0, len(pcm), MOST_CHARS * SAMPLES_PER_CHAR):
                part = Tensor.of(pcm[start : start + MOST_CHARS * SAMPLES_PER_CHAR])
                lead = Checkpoint(lead=self.lead)
                chunk = AudioChunk(job.request_id, writer.position, RATE, part, checkpoint=lead)
                await writer.put(chunk)
            await writer.end(writer.remaking)
        await writer.close()


async def recite(performance: Performance) -> None:
    """Say every piece of text as one chunk and one word, or as many as messages have room for."""
    async for piece in performance.text():
        for start in range(0, len(piece), MOST_CHARS):
            await performance.say(piece[start : start + MOST_CHARS], word=True)
    await performance.end()


async def hold(performance: Performance) -> None:
    """Say something and go on for ever."""
    await performance.say("first")
    await asyncio.Event().wait()


class Gate:
    """Recite when `go` is set."""

    def __init__(self) -> None:
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    async def __call__(self, performance: Performance) -> None:
        self.begun.set()
        await self.go.wait()
        await recite(performance)


@dataclass
class FakeStage:
    """Takes the talker's jobs and writes the vocoder's log, by a script the test chooses."""

    bus: Bus
    script: Script = recite
    jobs: list[Job] = field(default_factory=list)
    performances: list[Performance] = field(default_factory=list)
    cancelled: dict[str, asyncio.Event] = field(default_factory=dict)
    remakes: int = 0
    lead: int = 0

    async def handle(self, job: Job) -> None:
        self.jobs.append(job)
        writer = await self.bus.audio_writer(job.request_id, job.epoch)
        performance = Performance(self.bus, job, writer, self.lead)
        self.performances.append(performance)
        await performance.log_codes()
        subject = subjects.playback(job.request_id)

        def heard(message: Message) -> None:
            if isinstance(message, Playback):
                performance.playback.append(message.position_s)

        subscription = await self.bus.link.listen(subject, heard)
        acting: asyncio.Task[Any] = asyncio.create_task(self.script(performance))  # type: ignore[arg-type]
        cancelling = asyncio.create_task(job.cancelled.wait())
        await asyncio.wait((acting, cancelling), return_when=asyncio.FIRST_COMPLETED)
        if not acting.done():
            acting.cancel()
            await asyncio.gather(acting, return_exceptions=True)
            await performance.end("cancelled")
        cancelling.cancel()
        await writer.close()
        await self.bus.link.unsubscribe(subscription)
        if job.cancelled.is_set():
            self.cancelled_event(job.request_id).set()

    async def remake(self, job: Job) -> None:
        """Sound a request again that is over."""
        self.remakes += 1
        said = (p for p in self.performances if p.job.request_id == job.request_id)
        await next(said).sound_again(job)

    def cancelled_event(self, request_id: str) -> asyncio.Event:
        return self.cancelled.setdefault(request_id, asyncio.Event())

    async def freed(self, request_id: str) -> None:
        """Wait until a request was cancelled here."""
        async with asyncio.timeout(TIMEOUT_S):
            await self.cancelled_event(request_id).wait()

    def report(self, stage: str = "talker") -> Replica:
        return Replica(f"{self.bus.worker_id}-{stage}", stage, (MODEL,), 64, 64)  # type: ignore[arg-type]

    async def report_vocoder(self) -> None:
        vocoder = self.report("vocoder")
        await self.bus.kv.put(subjects.REPLICAS, vocoder.worker_id, vocoder.encode())

    async def keep_reporting(self) -> None:
        """Records expire: a worker that lives says so again and again."""
        while True:
            await asyncio.sleep(2.0)
            await self.report_vocoder()


class Prompt:
    """Has a server end when its connections have: uvicorn looks ten times a second, and there are
    350 tests.
    """

    def __init__(self, http_server: uvicorn.Server, patch: pytest.MonkeyPatch) -> None:
        self.end = asyncio.Event()
        self._server, self._shutdown = http_server, http_server.shutdown
        patch.setattr(http_server, "main_loop", self.run)
        patch.setattr(http_server, "shutdown", self.shutdown)

    async def run(self) -> None:
        for tick in count():
            await self._server.on_tick(tick)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    await self.end.wait()
                    return

    async def shutdown(self, sockets: list[socket.socket]) -> None:
        state = self._server.server_state
        for connection in list(state.connections):
            connection.shutdown()
        for _ in range(20):
            if not state.connections and not state.tasks:
                for listening in self._server.servers:
                    listening.close()
                for bound in sockets:
                    bound.close()
                return
            await asyncio.sleep(0.005)
        await self._shutdown(sockets)


@dataclass
class Stand:
    """What a test talks to."""

    url: str
    gateway: Gateway
    stage: FakeStage
    metrics: GatewayMetrics
    http: httpx.AsyncClient
    http_server: uvicorn.Server

    def socket(self, **options: Any) -> connect:
        return connect(self.url.replace("http", "ws") + STREAM_PATH, **options)

    async def opened(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A bare connection."""
        return await asyncio.open_connection("127.0.0.1", int(self.url.rpartition(":")[2]))

    @contextlib.asynccontextmanager
    async def session(self, **config: Any) -> AsyncIterator[ClientConnection]:
        """A configured socket."""
        async with self.socket() as socket:
            await send(socket, "session.config", **config)
            created = await receive(socket)
            assert created["type"] == "session.created"
            yield socket

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples of `name` that carry `labels`."""
        families = self.metrics.registry.collect()
        samples = [sample for family in families for sample in family.samples]
        return sum(
            s.value for s in samples if s.name == name and labels.items() <= s.labels.items()
        )


async def send(socket: ClientConnection, kind: str, **fields: Any) -> None:
    await socket.send(json.dumps({"type": kind, **fields}))


async def say(socket: ClientConnection, text: str, **fields: Any) -> None:
    """A whole text at once."""
    await send(socket, "input.text", text=text, **fields)
    await send(socket, "input.done", **fields)


async def receive(socket: ClientConnection) -> dict[str, Any]:
    """The next message, audio as {"type": "pcm", "data": ...}."""
    async with asyncio.timeout(10):
        message = await socket.recv()
    if isinstance(message, bytes):
        return {"type": "pcm", "data": message}
    parsed: dict[str, Any] = json.loads(message)
    return parsed


async def receive_until(socket: ClientConnection, *kinds: str) -> list[dict[str, Any]]:
    """Every message up to and with the first of `kinds`."""
    messages = [await receive(socket)]
    while messages[-1]["type"] not in kinds:
        messages.append(await receive(socket))
    return messages


def pcm_of(messages: list[dict[str, Any]]) -> np.ndarray[Any, np.dtype[np.int16]]:
    """The sound in them, of the session and of its contexts."""
    parts = [m["data"] for m in messages if m["type"] == "pcm"]
    parts += [base64.b64decode(m["audio"]) for m in messages if m["type"] == "audio.chunk"]
    return np.frombuffer(b"".join(parts), "<i2")


@pytest.fixture
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> GatewaySettings:
    """Parametrise indirectly to change what a test needs otherwise; `keys`: of a keys file."""
    wanted = {"port": 0, **getattr(request, "param", {})}
    if keys := wanted.pop("keys", None):
        wanted["keys_file"] = tmp_path / "keys.toml"
        wanted["keys_file"].write_text(keys)
    return GatewaySettings(**wanted)


@pytest.fixture
async def stand(
    broker: LocalStack, settings: GatewaySettings, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Stand]:
    bus = await Bus.connect(broker.bus, "stage")
    await make_streams(bus)
    stage = FakeStage(bus)
    metrics = GatewayMetrics()
    stopping = asyncio.Event()
    both = Stage("talker", "talk", TALKER.stream, AUDIO)
    worker = Worker(bus, both, ["vesper"], 64, stage.handle, stage.report, Metrics())
    working = asyncio.create_task(worker.run(stopping, drain_s=0.1))
    vocoder_bus = await Bus.connect(broker.bus, "vocoder")
    vocoder = Worker(
        vocoder_bus, VOCODER, ["vesper"], 64, stage.remake,
        lambda: Replica(vocoder_bus.worker_id, "vocoder", (), 64, 64),  # `report_vocoder` says more
        Metrics(),
    )  # fmt: skip
    vocoding = asyncio.create_task(vocoder.run(stopping, drain_s=0.1))
    await bus.kv.put(subjects.REPLICAS, bus.worker_id, stage.report().encode())
    await stage.report_vocoder()
    reporting = asyncio.create_task(stage.keep_reporting())

    front_bus = await Bus.connect(broker.bus, "gateway")
    gateway = create_gateway(settings, front_bus, metrics)
    await gateway.context.catalogue.refresh()
    listener = listen(settings)
    http_server = server(gateway, settings)
    prompt = Prompt(http_server, monkeypatch)
    serving = asyncio.create_task(http_server.serve(sockets=[listener]))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    # To read all of the world's authorities takes a third of what a test takes.
    async with httpx.AsyncClient(base_url=url, timeout=20, verify=False) as http:
        yield Stand(url, gateway, stage, metrics, http, http_server)
    prompt.end.set()
    await serving
    await gateway.context.services.chores.finish(TIMEOUT_S)
    stopping.set()
    await working
    await vocoding
    await vocoder_bus.close()
    reporting.cancel()
    await asyncio.gather(reporting, return_exceptions=True)
    await front_bus.close()
    await bus.close()


@pytest.fixture
async def hearing(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> Stand:
    """The stage's model answers in words of its own."""
    accepts = (*MODEL.accepts, "instructions", "max_new_tokens")
    model = msgspec.structs.replace(MODEL, says=True, accepts=accepts)
    monkeypatch.setitem(globals(), "MODEL", model)
    catalogue, bus = stand.gateway.context.catalogue, stand.stage.bus
    async with asyncio.timeout(TIMEOUT_S):
        while not (await catalogue.model("default")).says:
            await bus.kv.put(subjects.REPLICAS, bus.worker_id, stand.stage.report().encode())
            await catalogue.refresh()
    return stand


@pytest.fixture
def cloning(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> Stand:
    """A model that speaks with voices made of recordings is served beside the stage's."""

    async def models() -> dict[str, Model]:
        return {"vesper": MODEL, "m": Model("m", "f", RATE, 25.0, accepts=("ref_audio",))}

    monkeypatch.setattr(stand.gateway.context.catalogue, "models", models)
    return stand


@pytest.fixture
def talk() -> Any:
    """The verbs of this folder's tests, which cannot import a conftest."""

    class Talk:
        send = staticmethod(send)
        say = staticmethod(say)
        receive = staticmethod(receive)
        until = staticmethod(receive_until)
        pcm = staticmethod(pcm_of)
        sound = staticmethod(sound_of)
        recite = staticmethod(recite)
        hold = staticmethod(hold)
        gate = Gate

    return Talk
