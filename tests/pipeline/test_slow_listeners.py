"""Listeners that hear a long text as slowly as they like."""

import asyncio
import operator
from typing import Any

import httpx
import pytest

from antiphon.stack import LocalStack
from tests.stacks import metric, until_metric
from ttscommon.bus import Bus
from ttscommon.bus.logs.credit import CREDIT_BYTES
from ttscommon.wire.messages import End
from ttscommon.wire.subjects import AUDIO, CODES, Log

# Three minutes.
TEXT = "And then the story went on for a while, as stories do. " * 60
# What lies between a gateway and a client that reads nothing.
CONNECTION_BYTES = 1 << 20
AT_ONCE = {"base_s": 1e-4, "stream_s": 0.0, "prefill_s": 0.0}


async def log_of(bus: Bus, log: Log, request_id: str) -> Any:
    tail = await bus.log(log, request_id).last()
    return tail and tail.record


@pytest.mark.slow
@pytest.mark.parametrize(
    "stack",
    [{"engine": "fake", "curves": {"talker": AT_ONCE, "vocoder": AT_ONCE}}],
    indirect=True,
)
async def test_a_listener_that_reads_nothing_holds_a_bounded_amount_and_no_slot(
    stack: LocalStack,
) -> None:
    bus = await Bus.connect(stack.bus, "gateway")
    body = {"input": TEXT, "response_format": "pcm", "sample_rate": 16_000}
    url = f"{stack.url}/v1/audio/speech"
    async with (
        httpx.AsyncClient(timeout=30) as client,
        client.stream("POST", url, json=body) as response,
    ):
        request_id = response.headers["x-request-id"]
        async with asyncio.timeout(30):
            while not isinstance(codes := await log_of(bus, CODES, request_id), End):
                await asyncio.sleep(0.05)
        await until_metric(stack, "vocoder-1", "tts_active_streams", operator.not_)
        whole = 2 * codes.start * 640
        audio = await log_of(bus, AUDIO, request_id)
        assert not isinstance(audio, End)
        assert 2 * audio.start <= CREDIT_BYTES * 5 // 4 + CONNECTION_BYTES < whole // 2
        got = 0
        async for part in response.aiter_bytes():
            got += len(part)
    assert got == whole
    assert await metric(stack, "vocoder-1", "tts_active_streams") == 0
    await bus.close()
