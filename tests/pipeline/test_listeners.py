"""Listeners that leave or read nothing: slots and KV blocks come back, and little is held."""

import asyncio
import operator
from typing import Any

import httpx
import pytest

from antiphon.stack import LocalStack
from tests.native import Client
from tests.stacks import metric, until_metric
from ttscommon.bus import Bus
from ttscommon.bus.logs.credit import CREDIT_BYTES
from ttscommon.wire.messages import End
from ttscommon.wire.subjects import AUDIO, CODES, Log

pytestmark = pytest.mark.slow

SENTENCE = "And then the story went on for a while, as stories do. "
CLIENTS = 6
# What lies between a gateway and a client that reads nothing.
CONNECTION_BYTES = 1 << 20
AT_ONCE = {"base_s": 1e-4, "stream_s": 0.0, "prefill_s": 0.0}
# As /metrics writes it, labels by name.
USED_BLOCKS = 'tts_kv_blocks{model="vesper",state="used"}'


async def start(url: str) -> Client:
    """A socket on which audio has begun."""
    client = await Client.opened(url)
    await client.say(SENTENCE * 40, voice="default")
    await client.until("audio")
    return client


# However slow the machine is, all of them are to be let in.
@pytest.mark.parametrize(
    "stack", [{"environ": {"gateway": {"ANTIPHON_ADMISSION": "off"}}}], indirect=True
)
async def test_clients_that_vanish_or_cancel_leave_nothing_behind(stack: LocalStack) -> None:
    clients = await asyncio.gather(*(start(stack.url) for _ in range(CLIENTS)))
    assert await metric(stack, "talker-1", "tts_active_streams") == CLIENTS
    assert await metric(stack, "talker-1", USED_BLOCKS) > 0
    for client in clients[::2]:
        client.vanish()
    for client in clients[1::2]:
        await client.send("cancel")
    for child in ("talker-1", "vocoder-1"):
        await until_metric(stack, child, "tts_active_streams", operator.not_)
    await until_metric(stack, "talker-1", USED_BLOCKS, operator.not_)
    for child in ("talker-1", "vocoder-1"):
        assert await metric(stack, child, "tts_cancel_latency_seconds_count") == CLIENTS
    for client in clients:
        await client.socket.close()


async def log_of(bus: Bus, log: Log, request_id: str) -> Any:
    tail = await bus.log(log, request_id).last()
    return tail and tail.record


@pytest.mark.parametrize(
    "stack",
    [{"engine": "fake", "curves": {"talker": AT_ONCE, "vocoder": AT_ONCE}}],
    indirect=True,
)
async def test_a_listener_that_reads_nothing_holds_a_bounded_amount_and_no_slot(
    stack: LocalStack,
) -> None:
    bus = await Bus.connect(stack.bus, "gateway")
    body = {"input": SENTENCE * 60, "response_format": "pcm", "sample_rate": 16_000}
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
