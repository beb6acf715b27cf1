"""What readers, writers and workers ask each other past the logs, byte for byte."""

from collections.abc import AsyncIterator
from typing import Any, Final

import numpy as np
import pytest_asyncio

from tests.unit.ttscommon.bus.logs.helpers import settled
from tests.waits import until
from ttscommon.bus import AudioReader, Bus
from ttscommon.bus.logs.repair import ReaderTuning
from ttscommon.wire.messages import AudioChunk, CodecChunk, End, Position, Tensor, encode
from ttscommon.wire.subjects import AUDIO, CODES

STEP: Final = 1000
CHUNK: Final = (
    "89a174ab636f6465635f6368756e6baa726571756573745f6964a172a5737461727400a774656e736f727381a5636f"
    "64657383a56474797065a26932a573686170659101a464617461c4020000a5776f72647390a57370656e7490a56570"
    "6f636801a47361696490a17601"
)


class Wire:
    """All that is published while it listens: subject, data, headers, and where answers go."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._answers: dict[str, str] = {}
        self.said: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []

    def hear(self, message: Any) -> None:
        name = self._answers.get(message.subject, message.subject)
        if "$JS" in name or "_INBOX" in name or "$KV" in name:
            return
        name = name.removeprefix(self._bus.link.subject(""))
        self.said.append((name, bytes(message.data).hex()))
        if message.headers:
            self.headers.append(dict(message.headers))
        if message.reply:
            self._answers[message.reply] = f"answer to {name}"

    def of(self, name: str) -> list[str]:
        """What was said there, each once, in the order of its first time."""
        return list(dict.fromkeys(data for subject, data in self.said if subject == name))


@pytest_asyncio.fixture
async def wire(bus: Bus) -> AsyncIterator[Wire]:
    heard = Wire(bus)
    subscription = await bus.link.client.subscribe_inline(">", heard.hear)
    yield heard
    await bus.link.unsubscribe(subscription)


def word(text: str) -> str:
    return text.encode().hex()


def codes(start: int) -> CodecChunk:
    return CodecChunk("r", start, {"codes": Tensor.of(np.zeros(1, np.int16))})


async def test_a_log_reader_asks_for_a_position_and_the_writer_answers_with_records(
    bus: Bus, other: Bus, wire: Wire
) -> None:
    writer = await bus.writer(CODES, "r", 1)
    await writer.put(codes(0))
    await settled(bus)
    async with other.reader(CODES, "r") as reader:
        assert await anext(reader) == codes(0)
    await writer.release()
    await until(lambda: bool(wire.of("answer to nack.codes.r")))
    assert wire.of("nack.codes.r")[0] == word("0")  # a slow machine may have it ask again
    # An array of the writer's epoch and its records: 92 01 91 (c4, the length) (the record).
    assert wire.of("answer to nack.codes.r")[0] == f"920191c4{len(CHUNK) // 2:02x}{CHUNK}"


async def test_a_successor_of_a_log_writer_asks_for_a_position_and_readers_offer_records(
    bus: Bus, other: Bus, wire: Wire
) -> None:
    async with other.reader(CODES, "r") as reader:
        await settled(other)
        await bus.link.send_raw(CODES.live("r"), encode(codes(0)))
        await anext(reader)
        assert await bus.link.request(CODES.live("r"), b"1", 5.0) == b"\x90"
        await (await bus.writer(CODES, "r", 2)).release()
    assert word("0") in wire.of("live.codes.r")
    assert wire.of("answer to live.codes.r") == ["90", f"91c4{len(CHUNK) // 2:02x}{CHUNK}"]


async def test_live_records_say_how_far_the_log_is(bus: Bus, other: Bus, wire: Wire) -> None:
    writer = await bus.writer(CODES, "r", 2)  # its fence goes live
    await until(lambda: {"C": "0"} in wire.headers)
    await writer.release()


async def test_an_audio_reader_asks_with_a_position_and_a_credit_and_gets_a_bare_word(
    bus: Bus, other: Bus, wire: Wire
) -> None:
    writer = await bus.audio_writer("r", 1)
    await settled(bus)
    samples = Tensor.of(np.arange(STEP).astype(np.int16))
    await writer.put(AudioChunk("r", 0, 16_000, samples))
    tuning = ReaderTuning(credit_bytes=8 * STEP)
    async with AudioReader(other.log(AUDIO, "r"), other.queue, tuning=tuning) as reader:
        await anext(reader)
        await until(lambda: word("to 4000") in wire.of("nack.audio.r"))
        await writer.end(End("r", STEP, "ok"))
        await writer.close()
        await anext(reader)
    await until(lambda: bool(wire.of("answer to nack.audio.r")))
    assert {word("0"), word("to 4000")} <= set(wire.of("nack.audio.r"))
    assert wire.of("answer to nack.audio.r") == [""]


async def test_a_successor_of_an_audio_writer_asks_with_nothing_and_hears_a_position(
    bus: Bus, other: Bus, wire: Wire
) -> None:
    async with other.audio_reader("r", 12, fresh=True):
        await settled(other)
        writer = await bus.audio_writer("r", 2, fresh=False)
        await writer.release()
    await until(lambda: bool(wire.of("answer to live.audio.r")))
    assert wire.of("live.audio.r")[-1] == ""
    assert wire.of("answer to live.audio.r") == [encode(Position("r", 12)).hex()]
