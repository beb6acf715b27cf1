"""The vocoder between a real broker's logs: codes in, audio out, whatever happens on the way."""

import asyncio
import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from msgspec.structs import replace

from tests.connections import Connect
from ttscommon.bus import AudioReader, Bus
from ttscommon.cluster.worker import Job
from ttscommon.process.service import Service
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
from ttscommon.wire.subjects import AUDIO, CODES, VOCODER
from ttsfamilies.base.codec.base import Work
from ttsfamilies.fake.codec import DecodeCurve, FakeCodec
from vocoder import service, vocode_job
from vocoder.engine.engine import Engine
from vocoder.pcm import to_pcm
from vocoder.service import Vocoder, serve
from vocoder.settings import VocoderSettings

Codes = npt.NDArray[np.int16]


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
    async with asyncio.timeout(15):
        async for record in reader:
            if isinstance(record, End):
                return samples, words, record
            assert isinstance(record, AudioChunk)
            samples.extend(record.pcm.array().tolist())
            words.extend(word.word for word in record.words)
    raise AssertionError("the log had no End")


async def vocode(
    bus: Bus, engine: Engine, current: Job, *, start: int = 0, codes_timeout_s: float = 10
) -> tuple[list[int], list[str], End]:
    """Run a job; returns what somebody gets who listens from sample `start` on."""
    async with bus.audio_reader("r1", start) as reader:
        await asyncio.wait_for(Vocoder(bus, engine, codes_timeout_s).handle(current), 15)
        return await hear(reader)


async def test_codes_become_their_sound_and_words_come_along(bus: Bus, engine: Engine) -> None:
    sequence = codes(23)
    work = asyncio.create_task(vocode(bus, engine, job()))
    await write_codes(bus, sequence)
    samples, words, end = await work
    assert samples == offline(sequence)
    assert words == [f"w{i}" for i in range(23)]
    assert (end.outcome, end.start) == ("ok", 23 * 640)
    assert engine.idle


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
        dead = await bus.audio_writer("r1", 1)
        pcm, checkpoint = (
            Tensor.of(whole[:sent]),
            Checkpoint(frame, b"", ((decoded - 1) / 25, decoded / 25)),
        )
        await dead.put(AudioChunk("r1", 0, 16_000, pcm, known, checkpoint=checkpoint))
        await dead.close()
        await asyncio.wait_for(Vocoder(bus, engine, 10).handle(job(epoch=2)), 15)
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
        dead = await bus.audio_writer("r1", 1)
        checkpoint = Checkpoint(6, b"", (-1.0, -1.0), 20)
        first = AudioChunk("r1", 0, 16_000, Tensor.of(whole[:sent]), checkpoint=checkpoint)
        await dead.put(replace(first, said=tuple(pieces[:2])))
        await dead.close()
        await asyncio.wait_for(Vocoder(bus, engine, 10).handle(job(epoch=2)), 15)
        async with asyncio.timeout(15):
            heard = [record async for record in reader if isinstance(record, AudioChunk)]
    assert [piece for record in heard for piece in record.said] == pieces


async def spoken(bus: Bus, engine: Engine, sequence: Codes) -> None:
    """A request that is over, and whose listener has gone."""
    await write_codes(bus, sequence)
    await asyncio.wait_for(Vocoder(bus, engine, 10).handle(job()), 15)


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
    await asyncio.wait_for(Vocoder(bus, engine, 10).handle(remake()), 15)


async def test_what_cannot_be_made_again_ends_in_an_error(bus: Bus, engine: Engine) -> None:
    sequence = codes(23)
    await spoken(bus, engine, sequence)
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
    dead = await bus.audio_writer("r1", 1)
    await dead.begin(Position("r1", 5000))
    await dead.end(End("r1", 5000, "cancelled", request=remake().request))
    await dead.close()
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
        async with asyncio.timeout(10):
            first = await anext(late)
        assert isinstance(first, AudioChunk)
        assert first.start == 12_345
        async with bus.audio_reader("r1", 345) as reader:
            async with asyncio.timeout(10):
                first = await anext(reader)
            assert isinstance(first, AudioChunk)
            await talker.put(chunk(40, sequence[40:]))
            await talker.end(End("r1", 60, "ok"))
            await talker.close()
            samples, _, end = await hear(reader)
    assert first.pcm.array().tolist() + samples == offline(sequence)[345:]
    assert end.outcome == "ok"
    await asyncio.wait_for(work, 15)
    assert engine.idle


async def test_a_successor_decodes_nothing_for_nobody_and_says_where_it_ends(
    bus: Bus, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vocode_job, "LISTENER_S", 0.05)
    monkeypatch.setattr(engine, "open", None)
    await write_codes(bus, codes(23))
    await asyncio.wait_for(Vocoder(bus, engine, 10).handle(job(epoch=2)), 15)
    tail = await bus.log(AUDIO, "r1").last()
    assert tail is not None
    assert isinstance(tail.record, End)
    assert (tail.record.outcome, tail.record.start) == ("ok", 23 * 640)
    assert tail.record.request is not None


async def test_a_log_that_has_its_end_is_left_alone(bus: Bus, engine: Engine) -> None:
    dead = await bus.audio_writer("r1", 1)
    await dead.end(End("r1", 0, "cancelled"))
    await dead.close()
    assert (await vocode(bus, engine, job(epoch=2)))[2].outcome == "cancelled"


async def test_a_talkers_error_reaches_the_listener_after_its_audio(
    bus: Bus, engine: Engine
) -> None:
    failure = End("r1", 4, "error", "unknown_voice", "there is no such voice", "voice")
    await write_codes(bus, codes(4), end=failure)
    samples, _, end = await vocode(bus, engine, job())
    assert len(samples) == 4 * 640
    assert (end.outcome, end.code, end.param) == ("error", "unknown_voice", "voice")


async def test_a_request_without_a_frame_ends_as_its_codes_did(bus: Bus, engine: Engine) -> None:
    await write_codes(bus, codes(0), end=End("r1", 0, "error", "nothing_to_say", "nothing"))
    assert (await vocode(bus, engine, job()))[2].code == "nothing_to_say"
    assert engine.idle


async def test_cancelled_codes_end_the_audio_at_once(bus: Bus, engine: Engine) -> None:
    await write_codes(bus, codes(4), end=End("r1", 4, "cancelled"))
    assert (await vocode(bus, engine, job()))[2].outcome == "cancelled"
    assert engine.idle


async def test_cancel_frees_the_slot_in_the_middle_of_a_sentence(bus: Bus, engine: Engine) -> None:
    talker = await bus.writer(CODES, "r1", 1)
    await talker.put(chunk(0, codes(5)))
    current = job()
    work = asyncio.create_task(Vocoder(bus, engine, 10).handle(current))
    async with asyncio.timeout(10), bus.audio_reader("r1") as reader:
        await anext(reader)
        current.control(Cancel("r1"))
        record = await anext(reader)
    await asyncio.wait_for(work, 10)
    await talker.close()
    assert isinstance(record, End)
    assert record.outcome == "cancelled"
    assert engine.idle
    count = "tts_cancel_latency_seconds_count"
    assert engine.metrics.registry.get_sample_value(count, {"stage": "vocoder"}) == 1


@pytest.mark.parametrize(
    ("tensors", "code"),
    [
        ({"codes": Tensor.of(np.full((2, 4), 600, np.int16))}, "malformed_message"),
        ({"codes": Tensor.of(np.zeros((2, 3), np.int16))}, "malformed_message"),
        ({"latents": Tensor.of(np.zeros((2, 4), np.float32))}, "malformed_message"),
    ],
)
async def test_codes_that_make_no_sense_end_in_an_error(
    bus: Bus, engine: Engine, tensors: dict[str, Tensor], code: str
) -> None:
    talker = await bus.writer(CODES, "r1", 1)
    await talker.put(CodecChunk("r1", 0, tensors))
    end = (await vocode(bus, engine, job()))[2]
    await talker.close()
    assert (end.outcome, end.code) == ("error", code)
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


async def test_codes_that_stay_away_for_good_give_the_slot_back(bus: Bus, engine: Engine) -> None:
    assert (await vocode(bus, engine, job(), codes_timeout_s=0.05))[2].code == "internal"
    assert engine.idle


async def test_a_superseded_vocoder_lets_go_and_keeps_no_slot(
    connect: Connect, engine: Engine
) -> None:
    old, new = await connect(), await connect()
    talker = await new.writer(CODES, "r1", 1)
    await talker.put(chunk(0, codes(5)))
    work = asyncio.create_task(Vocoder(old, engine, 10).handle(job()))
    async with asyncio.timeout(10), new.audio_reader("r1") as reader:
        await anext(reader)
    successor = await new.audio_writer("r1", 2)
    await talker.put(chunk(5, codes(5)))
    await talker.end(End("r1", 10, "ok"))
    with pytest.raises(Fenced):
        await asyncio.wait_for(work, 10)
    assert engine.idle
    await successor.release()
    await talker.close()


async def test_a_stopped_engine_hands_the_request_on_instead_of_ending_it(
    bus: Bus, engine: Engine
) -> None:
    talker = await bus.writer(CODES, "r1", 1)
    await talker.put(chunk(0, codes(5)))
    work = asyncio.create_task(Vocoder(bus, engine, 10).handle(job()))
    async with asyncio.timeout(10), bus.audio_reader("r1") as reader:
        await anext(reader)
        await asyncio.to_thread(engine.stop)
        with pytest.raises(Exception, match="stopped"):
            await asyncio.wait_for(work, 10)
    await talker.close()
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
    await asyncio.wait_for(work, 15)
    assert told == [before]


async def test_the_service_works_through_jobs_and_drains(bus: Bus, broker: Any) -> None:
    settings = VocoderSettings(engine="fake", model="m", bus=broker.bus, drain_s=10)
    running_service = Service("vocoder", settings)
    running = asyncio.create_task(running_service.run(lambda service: serve(service, settings)))
    await bus.setup.ensure_consumer(VOCODER, "m")
    sequence = codes(30)
    async with bus.audio_reader("r1", fresh=True) as reader:
        await bus.submit(VOCODER, request())
        await write_codes(bus, sequence)
        samples, _, end = await hear(reader)
    assert samples == offline(sequence)
    assert end.outcome == "ok"
    running_service.stop()
    assert await asyncio.wait_for(running, 15) == 0
