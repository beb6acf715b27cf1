"""The vocoder between a real broker's logs: codes in, audio out, whatever happens on the way."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import numpy.typing as npt
import pytest
from msgspec.structs import replace

from tests.waits import TIMEOUT_S
from ttscommon.bus import AudioReader, Bus, LogWriter
from ttscommon.cluster.worker import Job
from ttscommon.engine.runtime import Stopped
from ttscommon.wire.errors import Fenced
from ttscommon.wire.messages import (
    AudioChunk,
    Cancel,
    Checkpoint,
    CodecChunk,
    End,
    Playback,
    Position,
    SaidText,
    SpeechRequest,
    Tensor,
    WordTime,
)
from ttscommon.wire.subjects import AUDIO, CODES
from ttsfamilies.base.codec.base import Work
from ttsfamilies.fake.codec import DecodeCurve, FakeCodec
from vocoder import service, vocode_job
from vocoder.engine.engine import Engine
from vocoder.engine.interface import SoundEngine
from vocoder.pcm import to_pcm
from vocoder.service import Vocoder

Codes = npt.NDArray[np.int16]
Running = asyncio.Task[None]


def request(request_id: str = "r1", voice: str = "slt") -> SpeechRequest:
    return SpeechRequest(request_id, "m", voice, "text", seed=3, created_unix_s=time.time())


def job(epoch: int = 1, **fields: str) -> Job:
    return Job(request(**fields), epoch, message=None)  # type: ignore[arg-type]


def codes(frames: int, seed: int = 0) -> Codes:
    return np.random.default_rng(seed).integers(0, 512, (frames, 4)).astype(np.int16)


def offline(sequence: Codes) -> list[int]:
    codec = FakeCodec("m", DecodeCurve(), lambda _: None)
    (samples,) = codec.decode([Work(codec.open(request()), {"codes": sequence}, final=True)])
    return to_pcm(samples).tolist()


def chunk(start: int, part: Codes, words: tuple[WordTime, ...] = ()) -> CodecChunk:
    return CodecChunk("r1", start, {"codes": Tensor.of(part)}, words)


async def write_codes(bus: Bus, sequence: Codes, *, step: int = 5, end: End | None = None) -> None:
    """The talker's part, with one word a frame."""
    writer = await bus.writer(CODES, "r1", 1)
    for start in range(0, len(sequence), step):
        part = sequence[start : start + step]
        words = tuple(
            WordTime(f"w{i}", i * 0.04, i * 0.04 + 0.04) for i in range(start, start + len(part))
        )
        await writer.put(chunk(start, part, words))
    await writer.end(end or End("r1", len(sequence), "ok"))
    await writer.close()


async def hear(reader: AudioReader) -> tuple[list[int], list[str], End]:
    """Everything the listener gets."""
    samples: list[int] = []
    words: list[str] = []
    async with asyncio.timeout(TIMEOUT_S):
        async for record in reader:
            if isinstance(record, End):
                return samples, words, record
            assert isinstance(record, AudioChunk)
            samples.extend(record.pcm.array().tolist())
            words.extend(word.word for word in record.words)
    raise AssertionError("the log had no End")


async def vocode(
    bus: Bus, engine: SoundEngine, current: Job, *, start: int = 0, codes_timeout_s: float = 10
) -> tuple[list[int], list[str], End]:
    """Run a job; returns what somebody gets who listens from sample `start` on."""
    async with bus.audio_reader("r1", start) as reader:
        await asyncio.wait_for(Vocoder(bus, engine, codes_timeout_s).handle(current), TIMEOUT_S)
        return await hear(reader)


async def died_behind(
    bus: Bus, *chunks: AudioChunk, begun: int = 0, end: End | None = None
) -> None:
    """What a predecessor wrote."""
    dead = await bus.audio_writer("r1", 1)
    if begun:
        await dead.begin(Position("r1", begun))
    for chunk in chunks:
        await dead.put(chunk)
    if end is not None:
        await dead.end(end)
    await dead.close()


async def ended(bus: Bus) -> End:
    """What the log of the audio ends with."""
    tail = await bus.log(AUDIO, "r1").last()
    assert tail is not None
    assert isinstance(tail.record, End)
    return tail.record


@asynccontextmanager
async def speaking(bus: Bus, engine: Engine) -> AsyncIterator[tuple[LogWriter, Job, Running]]:
    """A talker that has written five frames, and a vocoder whose listener has heard of them."""
    talker, current = await bus.writer(CODES, "r1", 1), job()
    await talker.put(chunk(0, codes(5)))
    work = asyncio.create_task(Vocoder(bus, engine, 10).handle(current))
    async with asyncio.timeout(TIMEOUT_S), bus.audio_reader("r1") as reader:
        await anext(reader)
        yield talker, current, work
    await talker.close()


async def test_codes_become_their_sound_and_words_come_along(
    bus: Bus, anywhere: SoundEngine
) -> None:
    sequence = codes(23)
    work = asyncio.create_task(vocode(bus, anywhere, job()))
    await write_codes(bus, sequence)
    samples, words, end = await work
    assert samples == offline(sequence)
    assert words == [f"w{i}" for i in range(23)]
    assert (end.outcome, end.start) == ("ok", 23 * 640)


@pytest.mark.parametrize(
    ("sent", "frame"), [(1, 0), (640, 0), (5 * 640 - 352, 4), (4000, 6), (4000, 0), (23 * 640, 21)]
)
async def test_a_successor_goes_on_with_the_next_sample(
    bus: Bus, engine: Engine, sent: int, frame: int
) -> None:
    sequence = codes(23)
    await write_codes(bus, sequence)
    whole = np.array(offline(sequence), np.int16)
    decoded = min(23, -(-(sent + 352) // 640))
    known = tuple(WordTime(f"w{i}", i / 25, (i + 1) / 25) for i in range(decoded))
    async with bus.audio_reader("r1") as reader:
        checkpoint = Checkpoint(frame, b"", ((decoded - 1) / 25, decoded / 25))
        pcm = Tensor.of(whole[:sent])
        await died_behind(bus, AudioChunk("r1", 0, 16_000, pcm, known, checkpoint=checkpoint))
        await asyncio.wait_for(Vocoder(bus, engine, 10).handle(job(epoch=2)), TIMEOUT_S)
        samples, words, end = await hear(reader)
    assert samples == whole.tolist()
    assert words == [f"w{i}" for i in range(23)]
    assert end.outcome == "ok"


async def test_text_of_the_models_own_reaches_the_listener_once_across_vocoders(
    bus: Bus, engine: Engine
) -> None:
    sequence, step = codes(20), 5
    pieces = [SaidText(10 * i, f"piece {i:3} ", i * step / 25) for i in range(4)]
    talker = await bus.writer(CODES, "r1", 1)
    for i, piece in enumerate(pieces):
        part = {"codes": Tensor.of(sequence[i * step : (i + 1) * step])}
        await talker.put(CodecChunk("r1", i * step, part, said=(piece,)))
    await talker.end(End("r1", 20, "ok"))
    await talker.close()
    whole, sent = np.array(offline(sequence), np.int16), 4000
    async with bus.audio_reader("r1") as reader:
        checkpoint = Checkpoint(6, b"", (-1.0, -1.0), 20)
        first = AudioChunk("r1", 0, 16_000, Tensor.of(whole[:sent]), checkpoint=checkpoint)
        await died_behind(bus, replace(first, said=tuple(pieces[:2])))
        await asyncio.wait_for(Vocoder(bus, engine, 10).handle(job(epoch=2)), TIMEOUT_S)
        async with asyncio.timeout(TIMEOUT_S):
            heard = [record async for record in reader if isinstance(record, AudioChunk)]
    assert [piece for record in heard for piece in record.said] == pieces


async def spoken(bus: Bus, engine: Engine, sequence: Codes) -> None:
    """A request that is over, and whose listener has gone."""
    await write_codes(bus, sequence)
    await asyncio.wait_for(Vocoder(bus, engine, 10).handle(job()), TIMEOUT_S)


def remake(epoch: int = 1 << 20) -> Job:
    again = job().request.for_remaking()
    return Job(again, epoch, message=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("start", [0, 1, 4000, 23 * 640 - 1])
async def test_a_request_that_has_ended_is_made_again_from_any_sample(
    bus: Bus, engine: Engine, start: int
) -> None:
    sequence = codes(23)
    await spoken(bus, engine, sequence)
    samples, _, end = await vocode(bus, engine, remake(), start=start)
    assert samples == offline(sequence)[start:]
    assert (end.outcome, end.start) == ("ok", 23 * 640)
    logged = [each.record for each in await bus.log(AUDIO, "r1").read(0)]
    assert sum(isinstance(record, End) for record in logged) == 1
    assert engine.idle


async def test_nothing_is_made_again_for_nobody(
    bus: Bus, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await spoken(bus, engine, codes(5))
    monkeypatch.setattr(service, "LISTENER_S", 0.05)
    monkeypatch.setattr(engine, "open", None)
    await asyncio.wait_for(Vocoder(bus, engine, 10).handle(remake()), TIMEOUT_S)


async def test_what_cannot_be_made_again_ends_in_an_error(bus: Bus, engine: Engine) -> None:
    await spoken(bus, engine, codes(23))
    last = await bus.log(CODES, "r1").last()
    assert last is not None
    await bus.link.jetstream.purge_stream(bus.link.name(CODES.stream), seq=last.sequence)
    samples, _, end = await vocode(bus, engine, remake())
    assert (samples, end.outcome, end.code) == ([], "error", "log_gone")
    assert engine.idle


async def test_a_cancelled_request_is_made_again_up_to_where_it_was_cancelled(
    bus: Bus, engine: Engine
) -> None:
    sequence = codes(23)
    await write_codes(bus, sequence)
    end = End("r1", 5000, "cancelled", request=remake().request)
    await died_behind(bus, begun=5000, end=end)
    samples, _, end = await vocode(bus, engine, remake())
    assert samples == offline(sequence)[:5000]
    assert end.outcome == "cancelled"


async def test_a_listener_who_comes_back_to_an_earlier_sample_has_it_decoded_again(
    bus: Bus, engine: Engine
) -> None:
    sequence = codes(60)
    talker = await bus.writer(CODES, "r1", 1)
    work = asyncio.create_task(Vocoder(bus, engine, 10).handle(job(epoch=2)))
    async with bus.audio_reader("r1", 12_345) as late:
        await talker.put(chunk(0, sequence[:40]))
        async with asyncio.timeout(TIMEOUT_S):
            first = await anext(late)
        assert isinstance(first, AudioChunk)
        assert first.start == 12_345
        async with bus.audio_reader("r1", 345) as reader:
            async with asyncio.timeout(TIMEOUT_S):
                first = await anext(reader)
            assert isinstance(first, AudioChunk)
            await talker.put(chunk(40, sequence[40:]))
            await talker.end(End("r1", 60, "ok"))
            await talker.close()
            samples, _, end = await hear(reader)
    assert first.pcm.array().tolist() + samples == offline(sequence)[345:]
    assert end.outcome == "ok"
    await asyncio.wait_for(work, TIMEOUT_S)
    assert engine.idle


async def test_a_successor_decodes_nothing_for_nobody_and_says_where_it_ends(
    bus: Bus, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vocode_job, "LISTENER_S", 0.05)
    monkeypatch.setattr(engine, "open", None)
    await write_codes(bus, codes(23))
    await asyncio.wait_for(Vocoder(bus, engine, 10).handle(job(epoch=2)), TIMEOUT_S)
    end = await ended(bus)
    assert (end.outcome, end.start) == ("ok", 23 * 640)
    assert end.request is not None


@pytest.mark.parametrize(
    ("frames", "end", "samples"),
    [
        (4, End("r1", 4, "error", "unknown_voice", "there is no such voice", "voice"), 4 * 640),
        (0, End("r1", 0, "error", "nothing_to_say", "nothing"), 0),
        (4, End("r1", 4, "cancelled"), None),  # at once
    ],
)
async def test_audio_ends_as_its_codes_did(
    bus: Bus, engine: Engine, frames: int, end: End, samples: int | None
) -> None:
    await write_codes(bus, codes(frames), end=end)
    heard, _, found = await vocode(bus, engine, job())
    assert (found.outcome, found.code, found.param) == (end.outcome, end.code, end.param)
    assert samples is None or len(heard) == samples
    assert engine.idle


async def test_a_log_that_has_its_end_is_left_alone(bus: Bus, engine: Engine) -> None:
    await died_behind(bus, end=End("r1", 0, "cancelled"))
    assert (await vocode(bus, engine, job(epoch=2)))[2].outcome == "cancelled"


async def test_cancel_frees_the_slot_in_the_middle_of_a_sentence(bus: Bus, engine: Engine) -> None:
    async with speaking(bus, engine) as (_, current, work):
        current.control(Cancel("r1"))
        await work
    assert (await ended(bus)).outcome == "cancelled"
    assert engine.idle
    count = "tts_cancel_latency_seconds_count"
    assert engine.metrics.registry.get_sample_value(count, {"stage": "vocoder"}) == 1


async def test_codes_that_make_no_sense_end_in_an_error(bus: Bus, engine: Engine) -> None:
    talker = await bus.writer(CODES, "r1", 1)
    latents = {"latents": Tensor.of(np.zeros((2, 4), np.float32))}
    await talker.put(CodecChunk("r1", 0, latents))
    end = (await vocode(bus, engine, job()))[2]
    await talker.close()
    assert (end.outcome, end.code) == ("error", "malformed_message")
    assert engine.idle


async def test_an_unknown_voice_is_a_typed_error(bus: Bus, engine: Engine) -> None:
    assert (await vocode(bus, engine, job(voice="nobody")))[2].code == "unknown_voice"


async def test_a_codec_that_breaks_is_an_internal_error(
    bus: Bus, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(engine._codec, "_tone", broken)
    await write_codes(bus, codes(4))
    end = (await vocode(bus, engine, job()))[2]
    assert (end.outcome, end.code) == ("error", "internal")
    assert "secret" not in end.message
    assert engine.idle


async def test_a_superseded_vocoder_lets_go_and_keeps_no_slot(
    bus: Bus, other: Bus, engine: Engine
) -> None:
    async with speaking(bus, engine) as (talker, _, work):
        successor = await other.audio_writer("r1", 2)
        await talker.put(chunk(5, codes(5)))
        await talker.end(End("r1", 10, "ok"))
        with pytest.raises(Fenced):
            await work
    assert engine.idle
    await successor.release()


async def test_a_stopped_engine_hands_the_request_on_instead_of_ending_it(
    bus: Bus, engine: Engine
) -> None:
    async with speaking(bus, engine) as (_, _, work):
        await asyncio.to_thread(engine.stop)
        with pytest.raises(Stopped):
            await work
    successor = await bus.audio_writer("r1", 2)
    assert not successor.ended
    await successor.release()


async def test_playback_reaches_the_engine(
    bus: Bus, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[float] = []
    monkeypatch.setattr(engine, "playback", lambda _, start_s: told.append(start_s))
    current = job()
    current.control(Playback("r1", 2.0))
    before = current.playback_start_s
    work = asyncio.create_task(Vocoder(bus, engine, 10).handle(current))
    await write_codes(bus, codes(4))
    await asyncio.wait_for(work, TIMEOUT_S)
    assert told == [before]
