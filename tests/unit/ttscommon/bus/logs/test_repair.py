"""The parts of a reader, without a broker: an inbox, what makes it suspicious, and its repairs."""

import asyncio

import numpy as np
import pytest

from ttscommon.bus.link import Incoming
from ttscommon.bus.logs.inbox import Inbox, Suspicion
from ttscommon.bus.logs.repair import ReaderTuning, RepairLoop
from ttscommon.bus.logs.timeline import Timeline
from ttscommon.wire.errors import LogGone
from ttscommon.wire.messages import CodecChunk, End, Tensor

QUICK = ReaderTuning(gap_retry_s=0.001, gap_longest_s=0.002)
LONG_S = 60.0


def chunk(start: int) -> CodecChunk:
    return CodecChunk("r", start, {"codes": Tensor.of(np.zeros(1, np.int16))})


class ListSource:
    """Has what is in `held`, and gives one record at a repair. `down`: repairs that fail first."""

    logged = True

    def __init__(self, inbox: Inbox, held: list[CodecChunk | End], down: int = 0) -> None:
        self._inbox = inbox
        self.held = held
        self.down = down
        self.asked: list[bool] = []
        self.judged = 0

    async def repair(self, *, lost: bool) -> bool:
        self.asked.append(lost)
        if self.down:
            self.down -= 1
            return False
        self._inbox.more = bool(self.held)
        if self.held:
            self._inbox.take_logged(self.held.pop(0))
            self._inbox.more = bool(self.held)
        return True

    def judge(self) -> None:
        self.judged += 1
        if self.judged == 3:
            self._inbox.fail(LogGone("gone"))

    async def answer(self, question: Incoming) -> None:
        raise AssertionError(question)


class Reading:
    def __init__(self, *, behind: bool = False, first_s: float = LONG_S, supply: int = 64) -> None:
        self.suspicion = Suspicion(first_s, first_s, behind=behind)
        self.inbox = Inbox(Timeline(), self.suspicion, 1024, supply)

    async def run(self, held: list[CodecChunk | End], down: int = 0) -> ListSource:
        source = ListSource(self.inbox, held, down)
        async with asyncio.timeout(10):
            await RepairLoop(self.inbox, self.suspicion, source, QUICK).run()
        return source

    async def read(self) -> list[int]:
        found: list[int] = []
        async with asyncio.timeout(10):
            while True:
                try:
                    found.append((await self.inbox.next()).start)
                except StopAsyncIteration:
                    return found


async def test_a_reader_that_is_behind_asks_at_once_and_until_nothing_more_comes() -> None:
    reading = Reading(behind=True)
    source = await reading.run([chunk(0), chunk(1), End("r", 2, "ok")])
    assert source.asked == [False] * 3
    assert await reading.read() == [0, 1, 2]


async def test_a_gap_is_asked_for_without_a_word_of_loss() -> None:
    reading = Reading()
    reading.inbox.take_live(End("r", 1, "ok"))
    source = await reading.run([chunk(0)])
    assert source.asked == [False]
    assert await reading.read() == [0, 1]


async def test_a_silence_is_suspicious_and_messages_may_be_lost() -> None:
    source = await Reading(first_s=0.001).run([End("r", 0, "ok")])
    assert source.asked == [True]


async def test_a_repair_that_could_not_be_asked_for_is_repeated_as_if_messages_were_lost() -> None:
    reading = Reading(behind=True)
    source = await reading.run([End("r", 0, "ok")], down=2)
    assert source.asked == [False, True, True]
    assert source.judged == 2


async def test_a_gap_that_is_given_up_ends_the_reading_behind_what_is_there() -> None:
    reading = Reading()
    reading.inbox.take_live(chunk(0))
    reading.inbox.take_live(chunk(2))
    await reading.run([])
    assert (await reading.inbox.next()).start == 0
    with pytest.raises(LogGone):
        await reading.inbox.next()


async def test_what_is_supplied_waits_until_it_is_read() -> None:
    reading = Reading(supply=1)
    reading.inbox.take_live(chunk(0))
    reading.inbox.take_live(chunk(2))
    source = ListSource(reading.inbox, [chunk(1), End("r", 3, "ok")])
    loop = RepairLoop(reading.inbox, reading.suspicion, source, QUICK)
    running = asyncio.create_task(loop.run())
    async with asyncio.timeout(10):
        while not reading.inbox.more:
            await asyncio.sleep(0)
        assert not source.asked
        assert await reading.read() == [0, 1, 2, 3]
        await running


def test_a_full_room_takes_nothing_live_and_remembers_that_there_is_more() -> None:
    inbox = Inbox(Timeline(), Suspicion(LONG_S, LONG_S, behind=False), 1, 1)
    assert inbox.takes(chunk(0))
    inbox.take_live(chunk(0))
    assert not inbox.takes(chunk(1))
    assert inbox.more
    assert inbox.at_hand() == chunk(0)
    assert inbox.takes(chunk(1))


async def test_a_stopped_inbox_delivers_nothing_more() -> None:
    inbox = Inbox(Timeline(), Suspicion(LONG_S, LONG_S, behind=False), 9, 9)
    inbox.take_live(chunk(0))
    inbox.stop()
    assert inbox.at_hand() is None
    with pytest.raises(StopAsyncIteration):
        await inbox.next()
