"""The services as users of accounts of their own: they can do all that they have to do."""

import asyncio
from pathlib import Path

import httpx
import pytest

from antiphon.stack import StackConfig
from tests.stacks import GuardedStack
from tests.waits import TIMEOUT_S

TEXT = "The tide comes in over the sand, and the boats turn slowly on their chains. " * 6


async def speak(url: str, begun: asyncio.Event, seed: int = 7) -> bytes:
    heard = b""
    async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
        body = {"input": TEXT, "response_format": "pcm", "seed": seed}
        async with client.stream("POST", "/v1/audio/speech", json=body) as answer:
            assert answer.status_code == 200, await answer.aread()
            async for part in answer.aiter_bytes():
                heard += part
                begun.set()
    return heard


@pytest.mark.slow
async def test_speech_survives_a_worker_of_each_stage_with_users_of_least_privilege(
    tmp_path: Path,
) -> None:
    """At three brokers; one is run with its rights by tests/deploy/test_chart_runs.py."""
    config = StackConfig(
        port=0, engine="fake", talkers=2, vocoders=2, brokers=3, store=tmp_path / "store"
    )
    async with GuardedStack(config, tmp_path / "secrets") as stack:
        whole = await speak(stack.url, asyncio.Event())
        for stage in ("talker", "vocoder"):
            begun = asyncio.Event()
            speaking = asyncio.create_task(speak(stack.url, begun))
            await asyncio.wait_for(begun.wait(), TIMEOUT_S)
            for number in (1, 2):  # whichever has it
                child = stack.children[f"{stage}-{number}"]
                await asyncio.wait_for(child.ready.wait(), TIMEOUT_S)
                child.kill()
            assert await asyncio.wait_for(speaking, TIMEOUT_S) == whole
