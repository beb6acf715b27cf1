"""The talker between a real broker's logs: jobs in, codec chunks out, whatever happens."""

import asyncio
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from talker.engine.engine import Engine
from talker.engine.interface import SpeechEngine
from talker.service import Talker
from talker.text_feed import TextTiming
from tests.waits import TIMEOUT_S
from ttscommon.bus import Bus
from ttscommon.cluster.references import References, recording_key
from ttscommon.cluster.worker import Job
from ttscommon.engine.runtime import Stopped
from ttscommon.engine.stage_job import StageJob
from ttscommon.process.metrics import Metrics
from ttscommon.wire.errors import Overloaded, UnknownAdapter
from ttscommon.wire.fields import NOTHING, Array, Derived
from ttscommon.wire.messages import (
    Cancel,
    CodecChunk,
    End,
    Reference,
    SaidText,
    SpeechRequest,
    Tensor,
    TextPiece,
    Turn,
)
from ttscommon.wire.parameters import AdapterRef
from ttscommon.wire.pieces import Piece
from ttscommon.wire.subjects import CODES, TEXT, VOCODER, Stage
from ttsfamilies.fake.talker import (
    ANSWER_CHARACTERS,
    FRAMES_PER_CHARACTER,
    FakeModel,
    FakePrepared,
    Manner,
    StepCurve,
    fake_frame,
    fake_said,
)

SEED = 3
SENTENCE = "Twenty characters..."
ADAPTER = AdapterRef("narrator", "ab" * 32)


def job(epoch: int = 1, **fields: Any) -> Job:
    wishes = {"text": SENTENCE, "seed": SEED, "created_unix_s": time.time(), **fields}
    request = SpeechRequest("r1", "m", wishes.pop("voice", "slt"), wishes.pop("text"), **wishes)
    return Job(request, epoch, message=None)  # type: ignore[arg-type]


def spoken(characters: int) -> list[list[int]]:
    """The frames that so much text makes."""
    frames = int(characters * FRAMES_PER_CHARACTER)
    return [fake_frame(SEED, frame).tolist() for frame in range(frames)]


def codes(first: int, *frames: list[int], **more: Any) -> CodecChunk:
    return CodecChunk("r1", first, {"codes": Tensor.of(np.array(frames, np.int16))}, **more)


async def died_behind(bus: Bus, *chunks: CodecChunk, end: End | None = None) -> None:
    """What a predecessor wrote."""
    dead = await bus.writer(CODES, "r1", 1)
    for chunk in chunks:
        await dead.put(chunk)
    if end is not None:
        await dead.end(end)
    await dead.close()


async def later_text(bus: Bus, *pieces: str) -> None:
    """All of it, and its end."""
    typist = await bus.writer(TEXT, "r1", 1)
    for piece in pieces:
        await typist.put(TextPiece("r1", typist.position, piece))
    await typist.end(End("r1", typist.position, "ok"))
    await typist.close()


async def hear(bus: Bus) -> tuple[list[list[int]], list[CodecChunk], End]:
    """Everything the vocoder gets."""
    chunks: list[CodecChunk] = []
    async with asyncio.timeout(15), bus.reader(CODES, "r1") as reader:
        async for record in reader:
            if isinstance(record, End):
                frames = [row for c in chunks for row in c.tensors["codes"].array().tolist()]
                return frames, chunks, record
            assert isinstance(record, CodecChunk)
            chunks.append(record)
    raise AssertionError("the log had no End")


async def talked(
    bus: Bus, engine: SpeechEngine, current: Job, *how: Any
) -> tuple[list[list[int]], list[CodecChunk], End]:
    """What the vocoder gets of a job that is done. how: Talker's timing and adapters."""
    await asyncio.wait_for(Talker(bus, engine, *how).handle(current), TIMEOUT_S)
    return await hear(bus)


async def queued(bus: Bus) -> int:
    """Jobs that wait for a vocoder."""
    return await bus.queue.waiting(VOCODER, "m")


async def last(bus: Bus) -> CodecChunk | End:
    """What the log ends with."""
    tail = await bus.log(CODES, "r1").last()
    assert tail is not None
    assert isinstance(tail.record, CodecChunk | End)
    return tail.record


async def test_text_becomes_frames_and_the_vocoders_have_their_job(
    bus: Bus, anywhere: SpeechEngine
) -> None:
    frames, chunks, end = await talked(bus, anywhere, job())
    assert frames == spoken(len(SENTENCE))
    assert (end.outcome, end.start) == ("ok", len(frames))
    assert await queued(bus) == 1
    spent = [chunk.spent for chunk in chunks]
    assert [one.stage for one in spent[0]] == ["talker"]
    assert spent[0][0].total_s >= spent[0][0].engine_s > 0.0
    assert not any(spent[1:])


async def test_nothing_more_is_read_before_the_first_chunk_is_out(
    bus: Bus, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = list[str]()

    def spy(name: str, real: Callable[..., None]) -> Callable[..., None]:
        return lambda *given, **named: (told.append(name), real(*given, **named))[1]

    for name in ("feed", "acknowledge"):
        monkeypatch.setattr(engine, name, spy(name, getattr(engine, name)))
    await talked(bus, engine, job(), TextTiming(first_s=15))
    assert told[0] == "acknowledge"
    assert "feed" in told


@pytest.mark.parametrize("sent", [1, 7, 31, 32])
async def test_a_successor_goes_on_with_the_next_frame(
    bus: Bus, anywhere: SpeechEngine, sent: int
) -> None:
    whole = spoken(len(SENTENCE))
    await died_behind(bus, codes(0, *whole[:sent]))
    frames, _, end = await talked(bus, anywhere, job(epoch=2))
    assert (frames, end.outcome) == (whole, "ok")


async def test_without_the_beginning_of_the_log_the_request_ends_in_an_error(
    bus: Bus, engine: Engine
) -> None:
    whole = spoken(len(SENTENCE))
    await died_behind(bus, codes(0, whole[0]), codes(1, whole[1]))
    await bus.link.jetstream.purge_stream(bus.link.name(CODES.stream), seq=2)
    await asyncio.wait_for(Talker(bus, engine).handle(job(epoch=2)), TIMEOUT_S)
    end = await last(bus)
    assert isinstance(end, End)
    assert (end.outcome, end.code, end.start) == ("error", "internal", 2)


async def test_a_log_that_has_its_end_only_lacks_the_vocoders_job(bus: Bus, engine: Engine) -> None:
    await died_behind(bus, end=End("r1", 0, "cancelled"))
    assert (await talked(bus, engine, job(epoch=2)))[2].outcome == "cancelled"
    assert await queued(bus) == 1


async def test_text_that_comes_later_is_spoken_too(bus: Bus, anywhere: SpeechEngine) -> None:
    current = job(text="Hello ", text_final=False)
    work = asyncio.create_task(talked(bus, anywhere, current))
    await later_text(bus, "to you", " all.")
    assert len((await work)[0]) == len(spoken(len("Hello to you all.")))


async def test_a_dead_engine_hands_the_job_on_instead_of_ending_it(
    bus: Bus, engine: Engine
) -> None:
    speaking = asyncio.create_task(Talker(bus, engine).handle(job(text_final=False)))
    async with asyncio.timeout(TIMEOUT_S):
        while await bus.log(CODES, "r1").last() is None:
            await asyncio.sleep(0.005)
    engine.stop()
    with pytest.raises(Stopped):
        await asyncio.wait_for(speaking, TIMEOUT_S)
    assert isinstance(await last(bus), CodecChunk)


async def test_cancel_ends_a_request_that_waits_for_text(bus: Bus, anywhere: SpeechEngine) -> None:
    current = job(text_final=False)
    work = asyncio.create_task(talked(bus, anywhere, current))
    async with asyncio.timeout(TIMEOUT_S), bus.reader(CODES, "r1") as reader:
        await anext(reader)
    current.control(Cancel("r1"))
    assert (await work)[2].outcome == "cancelled"


async def test_a_long_text_is_read_while_its_beginning_is_spoken(bus: Bus, engine: Engine) -> None:
    """Reading happens outside the engine, unit by unit: the first chunk does not wait for it."""
    read: list[int] = []
    original = engine.family.prepare

    class Slow(FakePrepared):
        def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[int]:
            for _ in range(20):
                assert threading.current_thread().name != "talker-engine"
                read.append(5)
                yield 5

    def prepare(request: SpeechRequest, derived: Derived = NOTHING) -> Slow:
        return Slow(original(request, derived).request)

    engine.family.prepare = prepare  # type: ignore[method-assign]
    work = asyncio.create_task(talked(bus, engine, job(text="x" * 100)))
    async with asyncio.timeout(TIMEOUT_S), bus.reader(CODES, "r1") as reader:
        await anext(reader)
        assert len(read) < 20
    frames, _, end = await work
    assert (frames, end.outcome) == (spoken(100), "ok")


async def test_text_that_turns_out_to_hold_nothing_ends_in_its_error(
    bus: Bus, engine: Engine
) -> None:
    work = asyncio.create_task(talked(bus, engine, job(text="", text_final=False)))
    await later_text(bus, "... !")
    end = (await work)[2]
    assert (end.outcome, end.code) == ("error", "nothing_to_say")
    assert engine.idle


async def test_a_full_vocoders_queue_holds_the_talker_back(bus: Bus, engine: Engine) -> None:
    submit, full = bus.submit, iter([True, True])

    async def refuse_twice(stage: Stage, request: SpeechRequest) -> None:
        if next(full, False):
            raise Overloaded("the queue is full")
        await submit(stage, request)

    bus.submit = refuse_twice  # type: ignore[method-assign]
    assert (await talked(bus, engine, job(), TextTiming(room_s=0.01)))[2].outcome == "ok"
    assert await queued(bus) == 1


async def test_a_cancelled_request_does_not_wait_for_the_vocoders_queue(
    bus: Bus, engine: Engine
) -> None:
    refused = asyncio.Event()

    async def refuse(*_: object) -> None:
        refused.set()
        raise Overloaded("the queue is full")

    bus.submit = refuse  # type: ignore[method-assign,assignment]
    wanted = job(text_final=False)
    work = asyncio.create_task(talked(bus, engine, wanted, TextTiming(room_s=0.01)))
    await asyncio.wait_for(refused.wait(), TIMEOUT_S)
    wanted.control(Cancel("r1", "enough"))
    assert (await work)[2].outcome == "cancelled"
    assert engine.idle


@pytest.fixture
def conversing() -> Iterator[Engine]:
    """Of a model that goes on from turns."""
    model = FakeModel("m", StepCurve(0.0, 0.0, 0.0), manner=Manner(turns=True))
    engine = Engine(model, slots=8, metrics=Metrics())
    engine.start()
    yield engine
    engine.stop()


async def test_what_was_said_before_is_derived_once_and_told_to_the_model(
    bus: Bus, conversing: Engine
) -> None:
    model, key = conversing.family, recording_key("", b"a recording")
    await References(bus).keep(key, b"a recording", kept=False)
    sound = Reference(key)
    request = job(turns=(Turn(1, "?", sound),), speaker=1, extra_params={"salt": 7})
    frames, _, end = await talked(bus, conversing, request)
    assert end.outcome == "ok"
    derived = Derived(None, (model.derive(b"a recording"),))
    told = model.prepare(request.request, derived).request.seed
    assert told != SEED
    assert frames[:5] == [fake_frame(told, frame).tolist() for frame in range(5)]
    kept = replace(sound, derived=f"{key}.{model.revision}")
    assert await References(bus).derived(kept)


async def test_a_spoken_turn_is_answered_and_a_successor_says_what_follows(
    bus: Bus, conversing: Engine
) -> None:
    key = recording_key("", b"what was said")
    await References(bus).keep(key, b"what was said", kept=False)
    await died_behind(bus, codes(0, *[[0] * 4] * 7, said=(SaidText(0, fake_said(7), 0.0),)))
    asked = job(epoch=2, text="", turns=(Turn(sound=Reference(key)),))
    frames, chunks, end = await talked(bus, conversing, asked)
    assert end.outcome == "ok"
    assert len(frames) == int(ANSWER_CHARACTERS * FRAMES_PER_CHARACTER)
    said = [piece for chunk in chunks for piece in chunk.said]
    assert "".join(piece.text for piece in said) == fake_said(len(frames))
    assert all(before.end == after.start for before, after in pairwise(said))


async def test_what_is_derived_may_be_larger_than_a_message(bus: Bus) -> None:
    key = recording_key("", b"long")
    await References(bus).keep(key, b"long", kept=False)
    rows = np.random.default_rng(0).random((313, 2000), np.float32)

    async def encode(recording: bytes) -> dict[str, Array]:
        await asyncio.sleep(0)
        return {"rows": rows, "length": np.array([len(recording)], np.int32)}

    for _ in range(2):  # derived, and found
        reference, arrays = await References(bus).derive(Reference(key), "rev", encode)
        assert np.array_equal(arrays["rows"], rows)
        encode = None  # type: ignore[assignment]
    assert (await References(bus).derived(reference))["length"] == [4]


class Held:
    """Adapters that are there, or are not. loaded: what a request for one waits for."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.users = error, 0
        self.acquired: list[str] = []
        self.loaded = asyncio.Event()
        self.loaded.set()

    async def acquire(self, ref: AdapterRef) -> Callable[[], None]:
        await self.loaded.wait()
        if self.error is not None:
            raise self.error
        self.acquired.append(ref.digest)
        self.users += 1
        return self.release

    def release(self) -> None:
        self.users -= 1


@pytest.fixture
def adaptable(engine: Engine) -> Engine:
    spec = engine.spec
    engine.spec = dataclasses.replace(spec, accepts=spec.accepts | {"adapter"})
    engine.family.spec = engine.spec
    return engine


@pytest.mark.parametrize("epoch", [1, 2])
async def test_a_request_holds_its_adapter_until_it_has_left_the_engine(
    bus: Bus, adaptable: Engine, epoch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held()
    users: list[int] = []
    free = StageJob.free

    async def spy(stage: StageJob[Any]) -> None:
        await free(stage)
        users.append(held.users)

    monkeypatch.setattr(StageJob, "free", spy)
    asked = job(epoch=epoch, adapter=ADAPTER)
    assert (await talked(bus, adaptable, asked, TextTiming(), held))[2].outcome == "ok"
    assert held.acquired == [ADAPTER.digest]
    assert (users, held.users) == ([1], 0)


async def test_others_are_spoken_while_an_adapter_is_loaded(bus: Bus, adaptable: Engine) -> None:
    held = Held()
    held.loaded.clear()
    talker = Talker(bus, adaptable, adapters=held)  # type: ignore[arg-type]
    waiting = asyncio.create_task(talker.handle(job(adapter=ADAPTER)))
    other = replace(job().request, request_id="other")
    await asyncio.wait_for(talker.handle(Job(other, 1, message=None)), TIMEOUT_S)  # type: ignore[arg-type]
    assert not waiting.done()
    held.loaded.set()
    await asyncio.wait_for(waiting, TIMEOUT_S)
    assert (await hear(bus))[2].outcome == "ok"


async def test_a_talker_that_cannot_have_the_adapter_says_so_once(
    bus: Bus, adaptable: Engine
) -> None:
    held = Held(UnknownAdapter("the adapter 'narrator' was deleted", param="adapter"))
    frames, _, end = await talked(bus, adaptable, job(adapter=ADAPTER), TextTiming(), held)
    assert (frames, end.outcome, end.code, end.param) == ([], "error", "unknown_adapter", "adapter")


@pytest.mark.parametrize(
    ("asked", "code", "param"),
    [
        ({"voice": "hal"}, "unknown_voice", "voice"),
        ({"turns": (Turn(text="x"),)}, "bad_request", "turns"),
        ({"speaker": 1}, "bad_request", "speaker"),
        ({"extra_params": {"salt": 1}}, "bad_request", "extra_params.salt"),
        ({"adapter": ADAPTER}, "bad_request", "adapter"),
    ],
)
async def test_a_model_refuses_what_it_cannot_take_whoever_sent_it(
    bus: Bus, anywhere: SpeechEngine, asked: dict[str, Any], code: str, param: str
) -> None:
    end = (await talked(bus, anywhere, job(**asked)))[2]
    assert (end.outcome, end.code, end.param) == ("error", code, param)
    assert await queued(bus) == 1  # so that the listener hears of it
