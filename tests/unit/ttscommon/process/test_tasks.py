"""Tasks that end, and that are heard of when they end badly."""

import asyncio

import pytest
from structlog.testing import capture_logs

from ttscommon.process.tasks import Chores, DutyEnded, stop, to_the_end, until


async def fail() -> None:
    raise ValueError("broken")


async def nothing() -> None:
    return


async def test_a_chore_that_fails_is_an_error_in_the_log() -> None:
    chores = Chores()
    with capture_logs() as logs:
        chores.start(fail())
        await chores.finish(1.0)
    (line,) = (line for line in logs if line["event"] == "chore.failed")
    assert (line["log_level"], line["chore"]) == ("error", "fail")


async def test_chores_that_take_too_long_are_ended_without_a_word() -> None:
    chores = Chores()
    task = chores.start(asyncio.Event().wait())  # type: ignore[arg-type]
    with capture_logs() as logs:
        await chores.finish(0.01)
    assert task.cancelled()
    assert logs == []


async def test_a_duty_that_ends_or_fails_ends_the_process() -> None:
    never = asyncio.Event()
    with pytest.raises(ValueError, match="broken"):
        await until(never, asyncio.create_task(fail()))
    with pytest.raises(DutyEnded):
        await until(never, asyncio.create_task(nothing()))


async def test_duties_go_on_until_they_are_told_to_stop() -> None:
    stopping = asyncio.Event()
    duty = asyncio.create_task(asyncio.Event().wait())
    waiting = asyncio.create_task(until(stopping, duty))
    await asyncio.sleep(0)
    stopping.set()
    await waiting
    assert not duty.done()
    await stop(duty)


async def test_a_clean_up_that_fails_says_so() -> None:
    with pytest.raises(ValueError, match="broken"):
        await to_the_end(fail())
