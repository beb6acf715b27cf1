"""Which requests are blamed for a worker's death, on a real broker."""

from typing import Any
from unittest.mock import AsyncMock

import numpy as np
import pytest

from ttscommon.bus import Bus
from ttscommon.bus.logs.logstore import RequestLog
from ttscommon.cluster.leases import Count, Lease
from ttscommon.cluster.reaper.failure_detector import after_death
from ttscommon.cluster.worker import IsolationTuning
from ttscommon.wire.messages import CodecChunk, Tensor
from ttscommon.wire.subjects import CODES

EPOCH = 1 << 20


def held(number: int, worker_id: str = "talker-1", **known: Any) -> Lease:
    return Lease(worker_id, "talker", f"r{number}", EPOCH, "receipt", **known)


async def test_few_jobs_without_progress_are_blamed_for_the_death_of_their_worker(bus: Bus) -> None:
    after = await after_death(bus, [held(n) for n in range(3)], 5.0)
    assert [(one.deaths, one.shared) for one in after] == [(1, 0)] * 3
    assert not any(one.held for one in after)


async def test_of_many_jobs_that_die_together_the_worker_is_suspected(bus: Bus) -> None:
    after = await after_death(bus, [held(n) for n in range(4)], 5.0)
    assert [(one.deaths, one.shared) for one in after] == [(0, 1)] * 4


async def test_a_worker_that_is_only_silent_may_be_slow_and_convicts_no_job(bus: Bus) -> None:
    jobs = [held(0), held(1, deaths=2, dead=("talker-0", "talker-0b"))]
    after = await after_death(bus, jobs, 5.0, silent=True)
    assert [(one.deaths, one.shared, one.silences) for one in after] == [(0, 0, 1), (2, 0, 1)]
    assert not any(IsolationTuning().convicts(one) for one in after)


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


async def test_one_that_was_blamed_before_stands_out_among_many(bus: Bus) -> None:
    jobs = [*(held(n) for n in range(4)), held(4, deaths=1, dead=("talker-0",))]
    after = await after_death(bus, jobs, 5.0)
    assert (after[4].deaths, after[4].shared) == (2, 0)
    assert after[4].dead == ("talker-0", "talker-1")


async def test_a_job_whose_log_grew_is_not_blamed_and_makes_no_crowd(bus: Bus) -> None:
    for number in range(3):
        writer = await bus.writer(CODES, f"r{number}", EPOCH)
        codes = {"codes": Tensor.of(np.zeros((3, 1), np.int16))}
        await writer.put(CodecChunk(f"r{number}", 0, codes))
        await writer.close()
    jobs = [held(n, deaths=2, shared=1, dead=("talker-0",)) for n in range(4)]
    after = await after_death(bus, jobs, 5.0)
    assert [(one.deaths, one.shared) for one in after] == [(0, 0)] * 3 + [(3, 1)]


async def test_a_job_that_waits_is_not_blamed(bus: Bus) -> None:
    [after] = await after_death(bus, [held(0, waiting=True, deaths=1)], 5.0)
    assert (after.deaths, after.waiting) == (1, False)


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
