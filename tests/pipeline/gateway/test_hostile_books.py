"""Jobs that are made to hurt: other keys and the gateway's health notice nothing.

`-s` prints the worst probe of the gateway during an attack.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.settings import GatewaySettings
from tests.keys import keys_file
from tests.probes import probed
from tests.unit.ttscommon.books.test_apart import SLOW, readers
from tests.waits import PATIENCE_S
from ttscommon.process.tasks import stop

PATH: Final = "/v1/audio/jobs"
A, B = ({"authorization": f"Bearer {name}"} for name in ("alice", "bob"))


@pytest.fixture
def settings(tmp_path: Path) -> GatewaySettings:
    """A gateway in which alice and bob have keys of their names."""
    return GatewaySettings(port=0, keys_file=keys_file(tmp_path))


async def send(stand: Any, data: bytes, key: dict[str, str]) -> int:
    """A form with a file."""
    form: dict[str, Any] = {"files": {"file": ("a.md", data)}, "data": {"input_format": "markdown"}}
    made = await stand.http.post(PATH, headers=key, timeout=PATIENCE_S, **form)
    return int(made.status_code)


async def test_slow_books_of_one_key_hold_up_no_other(stand: Any) -> None:
    """Their clients leave; so do the processes that read for them."""
    async with probed(stand, "eight slow books, clients gone"):
        attack = [asyncio.create_task(send(stand, SLOW, A)) for _ in range(8)]
        async with asyncio.timeout(PATIENCE_S):
            while not readers():
                await asyncio.sleep(0.02)
        assert await send(stand, b"It was calm.", B) == 202
        assert len(readers()) == 1
        await stop(*attack)
        async with asyncio.timeout(PATIENCE_S):
            while readers() or stand.gateway.app.state.reader.busy:
                await asyncio.sleep(0.02)


async def test_a_key_with_many_texts_that_wait_is_told_so(stand: Any) -> None:
    attack = [asyncio.create_task(send(stand, SLOW, A)) for _ in range(12)]
    try:
        async with asyncio.timeout(PATIENCE_S):
            done, _ = await asyncio.wait(attack, return_when=asyncio.FIRST_COMPLETED)
        assert {task.result() for task in done} == {429}
    finally:
        await stop(*attack)
