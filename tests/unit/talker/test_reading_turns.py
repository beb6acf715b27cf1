"""Whose text is read when."""

import asyncio

from talker.text_feed import ReadingTurns
from tests.waits import TIMEOUT_S


async def read(turns: ReadingTurns, name: str, order: list[str], *, offline: bool) -> None:
    async with turns.turn(offline=offline):
        order.append(name)
        await asyncio.sleep(0)
        order.append(name)


async def test_texts_of_jobs_are_read_one_at_a_time() -> None:
    turns, order = ReadingTurns(), list[str]()
    async with asyncio.timeout(TIMEOUT_S), asyncio.TaskGroup() as group:
        for name in "ab":
            group.create_task(read(turns, name, order, offline=True))
        group.create_task(read(turns, "listener", order, offline=False))
    assert "".join(name for name in order if name != "listener") == "aabb"
    assert order.index("listener") == 1


async def test_a_job_waits_for_a_first_chunk() -> None:
    turns, order = ReadingTurns(timeout_s=TIMEOUT_S), list[str]()
    async with asyncio.timeout(2 * TIMEOUT_S):
        with turns.starting(offline=True), turns.starting(offline=False):
            waiting = asyncio.create_task(read(turns, "job", order, offline=True))
            await read(turns, "listener", order, offline=False)
            assert not waiting.done()
        await waiting
    assert order == ["listener", "listener", "job", "job"]


async def test_but_not_for_ever() -> None:
    turns, order = ReadingTurns(timeout_s=0.01), list[str]()
    async with asyncio.timeout(TIMEOUT_S):
        with turns.starting(offline=False):
            await read(turns, "job", order, offline=True)
    assert order == ["job", "job"]
