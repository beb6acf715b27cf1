"""What pings tell of a worker, and which requests are blamed for its death, on a real broker."""

import asyncio
import time
from typing import Any
from unittest.mock import AsyncMock

import numpy as np
import pytest

from tests.unit.ttscommon.cluster.scene import answer
from ttscommon.bus import Bus
from ttscommon.bus.logs.logstore import RequestLog
from ttscommon.cluster.leases import Count, Lease
from ttscommon.cluster.reaper.failure_detector import FailureDetector, Verdict, after_death
from ttscommon.cluster.reaper.tuning import ReaperTuning
from ttscommon.cluster.worker import IsolationTuning
from ttscommon.wire import subjects
from ttscommon.wire.messages import CodecChunk, Tensor
from ttscommon.wire.subjects import CODES

WORKER = "vocoder-1"
QUICK = ReaperTuning(ping_s=0.05, late_s=0.05, gone_s=0.05, reunion_s=0.2, silent_s=0.1)


async def until(detector: FailureDetector, verdict: Verdict) -> list[Verdict]:
    """Ping until it is said; returns what was said before."""
    before: list[Verdict] = []
    async with asyncio.timeout(10):
        while (said := await detector.check(WORKER)) is not verdict:
            before.append(said)
    return before


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


# Deaths

EPOCH = 1 << 20


def held(number: int, worker_id: str = "talker-1", **known: Any) -> Lease:
    return Lease(worker_id, "talker", f"r{number}", EPOCH, "receipt", **known)


BLAMED: dict[str, Any] = {"deaths": 1, "dead": ("talker-0",)}


@pytest.mark.parametrize(
    ("jobs", "silent", "counts"),
    [
        pytest.param([held(n) for n in range(3)], False, [(1, 0, 0)] * 3, id="few are blamed"),
        pytest.param([held(n) for n in range(4)], False, [(0, 1, 0)] * 4, id="many share it"),
        pytest.param(
            [*(held(n) for n in range(4)), held(4, **BLAMED)],
            *(False, [(0, 1, 0)] * 4 + [(2, 0, 0)]),
            id="one that was blamed before stands out among many",
        ),
        pytest.param(
            [held(0), held(1, deaths=2, dead=("talker-0", "talker-0b"))],
            *(True, [(0, 0, 1), (2, 0, 1)]),
            id="a worker that is only silent may be slow",
        ),
        pytest.param([held(0, waiting=True, deaths=1)], False, [(1, 0, 0)], id="one that waits"),
    ],
)
async def test_which_jobs_are_blamed_for_the_death_of_their_worker(
    bus: Bus, jobs: list[Lease], silent: bool, counts: list[tuple[int, int, int]]
) -> None:
    after = await after_death(bus, jobs, 5.0, silent=silent)
    assert [(one.deaths, one.shared, one.silences) for one in after] == counts
    for job, one in zip(jobs, after, strict=True):
        assert (one.held, one.waiting, IsolationTuning().convicts(one)) == (False, False, False)
        assert one.dead == (job.dead if job.waiting else (*job.dead, "talker-1"))


async def test_both_workers_killed_and_a_third_that_is_slow_end_no_stream(bus: Bus) -> None:
    """The third has the streams of both, on a machine that starts two more."""
    stream = held(0)
    for worker_id, silent in (("a", False), ("b", False), ("c", True), ("d", True)):
        jobs = [stream.held_by(worker_id)]
        [stream] = await after_death(bus, jobs, 5.0, silent=silent)
    assert (stream.deaths, stream.silences) == (2, 2)
    assert not IsolationTuning().convicts(stream)
    [stream] = await after_death(bus, [stream.held_by("e")], 5.0)  # a third crash
    assert IsolationTuning().convicts(stream)


async def test_a_job_whose_log_grew_is_not_blamed_and_makes_no_crowd(bus: Bus) -> None:
    for number in range(3):
        writer = await bus.writer(CODES, f"r{number}", EPOCH)
        codes = {"codes": Tensor.of(np.zeros((3, 1), np.int16))}
        await writer.put(CodecChunk(f"r{number}", 0, codes))
        await writer.close()
    jobs = [held(n, deaths=2, shared=1, dead=("talker-0",)) for n in range(4)]
    after = await after_death(bus, jobs, 5.0)
    assert [(one.deaths, one.shared) for one in after] == [(0, 0)] * 3 + [(3, 1)]


async def test_a_log_that_does_not_answer_leaves_the_count_as_it_is(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RequestLog, "tail", AsyncMock(side_effect=TimeoutError("no replica")))
    [after] = await after_death(bus, [held(0, deaths=2)], 5.0)
    assert after.deaths == 2


@pytest.mark.parametrize("count", ["deaths", "shared", "silences"])
def test_a_process_dies_once_however_often_it_is_thought_to_be_dead(count: Count) -> None:
    once = held(0).after_death(count)
    twice = once.held_by("talker-1").after_death(count)
    assert twice == once
    assert (getattr(twice, count), twice.dead) == (1, ("talker-1",))
    restarted = twice.held_by("talker-1b").after_death(count)
    assert getattr(restarted, count) == 2
