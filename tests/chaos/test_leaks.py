"""The leak check must be able to fail."""

import asyncio
from typing import Any

import numpy as np
import pytest

from tests.chaos.leaks import LeakCheck, complaint, in_use
from ttscommon.bus import Bus
from ttscommon.wire.messages import AudioChunk, End, Tensor

CHUNK = AudioChunk("r1", 0, 16_000, Tensor.of(np.zeros(4, np.int16)))
END = End("r1", 4, "ok")


def test_a_log_has_one_end_and_it_is_the_last_record() -> None:
    assert complaint([CHUNK, END]) is None
    assert complaint([]) == "has 0 ends"
    assert complaint([CHUNK]) == "has 0 ends"
    assert complaint([CHUNK, END, END]) == "has 2 ends"
    assert complaint([END, CHUNK]) == "goes on after its end"


def test_streams_in_engines_are_seen() -> None:
    used = 'tts_kv_blocks{model="m",state="used"}'
    page = [
        'tts_active_streams{stage="talker"} 2.0', f"{used} 3.0",
        'tts_kv_blocks{model="m",state="free"} 9.0',
    ]  # fmt: skip
    assert list(in_use(page)) == [('tts_active_streams{stage="talker"}', 2.0), (used, 3.0)]


@pytest.mark.own_broker
async def test_a_request_that_never_ended_is_found(broker: Any) -> None:
    bus = await Bus.connect(broker.bus, "test")
    try:
        await bus.setup.create()
        leaks = LeakCheck(broker, bus)
        assert await leaks.check() == []
        writer = await bus.audio_writer("r1", 1)
        await writer.put(CHUNK)
        async with asyncio.timeout(10):
            while not await leaks.check(timeout_s=0.0):  # a chunk is committed behind
                await asyncio.sleep(0.01)
        assert await leaks.check(timeout_s=0.5) == ["audio.r1 has 0 ends"]
        await writer.end(END)
        await writer.close()
        assert await leaks.check() == []
    finally:
        await bus.close()
