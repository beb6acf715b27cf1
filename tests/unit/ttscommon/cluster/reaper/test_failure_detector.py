"""What pings tell of a worker, on a real broker."""

import asyncio
import time
from typing import Any

from tests.unit.ttscommon.cluster.scene import answer
from ttscommon.bus import Bus
from ttscommon.cluster.reaper.failure_detector import FailureDetector, Verdict
from ttscommon.cluster.reaper.tuning import ReaperTuning
from ttscommon.wire import subjects

WORKER = "vocoder-1"
QUICK = ReaperTuning(ping_s=0.05, late_s=0.05, gone_s=0.05, reunion_s=0.2, silent_s=0.1)


async def until(detector: FailureDetector, verdict: Verdict) -> list[Verdict]:
    """Ping until it is said; returns what was said before."""
    before: list[Verdict] = []
    async with asyncio.timeout(10):
        while (said := await detector.check(WORKER)) is not verdict:
            before.append(said)
    return before


async def test_who_answers_is_alive(bus: Bus) -> None:
    await answer(bus, subjects.ping(WORKER), lambda: b"")
    assert await FailureDetector(bus, QUICK).check(WORKER) is Verdict.ALIVE


async def test_who_is_absent_for_a_while_is_gone(bus: Bus) -> None:
    before = await until(FailureDetector(bus, QUICK), Verdict.GONE)
    assert before[0] is Verdict.DOUBTFUL  # it may be changing brokers


async def test_a_reported_disconnect_makes_an_absence_certain(bus: Bus) -> None:
    assert await FailureDetector(bus, QUICK).check(WORKER, reported=True) is Verdict.GONE


async def test_after_an_outage_of_our_own_the_others_may_take_longer(bus: Bus) -> None:
    detector = FailureDetector(bus, QUICK)
    detector.came_back()
    assert await detector.check(WORKER, reported=True) is Verdict.DOUBTFUL
    await until(detector, Verdict.GONE)


async def test_who_is_connected_and_gives_no_answer_is_given_up(bus: Bus) -> None:
    await answer(bus, subjects.ping(WORKER), lambda: None)  # it is connected, and wedged
    before = await until(FailureDetector(bus, QUICK), Verdict.SILENT)
    assert before[0] is Verdict.DOUBTFUL


async def test_silence_that_was_not_listened_to_does_not_count(bus: Bus) -> None:
    async def starving(message: Any) -> None:
        """This process gets no CPU while the answer is on its way."""
        time.sleep(0.3)

    await bus.link.subscribe(subjects.ping(WORKER), starving)
    detector = FailureDetector(bus, QUICK)
    for _ in range(4):
        assert await detector.check(WORKER) is not Verdict.SILENT
