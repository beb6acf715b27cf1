"""More requests than the queues hold: those beyond are refused, and none runs into a time-out."""

import asyncio
import json
from collections import Counter

import httpx
import pytest

from antiphon.stack import LocalStack
from tests.in_process import services
from tests.in_process import url as address
from ttscommon.bus import Bus
from ttscommon.wire.messages import End
from ttscommon.wire.subjects import TALKER, VOCODER, Stage

CONCURRENT = 2500
# Nothing but the queues limits: two slots, and two jobs that wait.
UNLIMITED = {"ANTIPHON_ADMISSION": "off", "ANTIPHON_MAX_STREAMS": str(CONCURRENT)}
ENGINE = {"ANTIPHON_SLOTS": "2"}
QUEUED = {
    "engine": "fake",
    "slots": 2,
    "environ": {"talker": ENGINE, "vocoder": ENGINE, "gateway": UNLIMITED},
}


async def post(url: httpx.URL, text: str) -> tuple[int, dict[str, str]]:
    """The status and the headers of a speech whose body is read to its end.

    A plain socket: a client library of thousands of connections would be what is measured.
    """
    body = json.dumps({"input": text, "response_format": "pcm"}).encode()
    reader, writer = await asyncio.open_connection(url.host, url.port)
    head = f"POST /v1/audio/speech HTTP/1.1\r\nhost: {url.host}\r\nconnection: close\r\n"
    typed = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write((head + typed).encode() + body)
    try:
        status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        await reader.read()
    finally:
        writer.close()
    headers = dict(line.lower().split(": ", 1) for line in lines if line)
    return int(status.split(" ")[1]), headers


@pytest.mark.slow
@pytest.mark.parametrize("stack", [QUEUED], indirect=True)
async def test_what_the_queue_does_not_hold_is_refused_with_a_hint_and_nothing_times_out(
    stack: LocalStack,
) -> None:
    url = httpx.URL(stack.url)
    answers = await asyncio.gather(*(post(url, "One two.") for _ in range(CONCURRENT)))
    statuses = Counter(status for status, _ in answers)
    assert statuses.keys() == {200, 429}
    assert statuses[200] >= 4
    assert all(int(headers["retry-after"]) >= 1 for status, headers in answers if status == 429)


async def test_a_request_that_waits_for_a_slot_in_vain_is_refused_and_leaves_the_queue(
    broker: LocalStack,
) -> None:
    settings = broker.bus.model_copy(update={"slots": 2})
    hasty = {"admission": "off", "first_audio_timeout_s": 0.5}
    async with services(settings, {"slots": 2}, hasty) as running:
        url = httpx.URL(address(running))
        long = "This takes much longer than half a second. " * 20
        speaking = [asyncio.create_task(post(url, long)) for _ in range(2)]
        bus = await Bus.connect(settings, "test")
        try:
            async with asyncio.timeout(10):
                while len(await bus.queue.jobs()) < 4:  # both have both of their jobs
                    await asyncio.sleep(0.01)
            status, headers = await post(url, "One two.")
            assert (status, "retry-after" in headers) == (429, True)
            assert len(await bus.queue.jobs()) <= 4
            assert not any(task.done() for task in speaking)
        finally:
            for task in speaking:
                task.cancel()
            await asyncio.gather(*speaking, return_exceptions=True)
            await bus.close()


@pytest.mark.slow
@pytest.mark.parametrize("stage", [TALKER, VOCODER], ids=lambda stage: stage.name)
@pytest.mark.parametrize("stack", [{"engine": "fake"}], indirect=True)
async def test_a_job_that_cannot_be_read_ends_where_its_listener_waits(
    stack: LocalStack, stage: Stage
) -> None:
    bus = await Bus.connect(stack.bus, "test")
    try:
        job = bus.link.subject(stage.job("vesper", "r"))
        async with asyncio.timeout(20), bus.audio_reader("r", fresh=True) as reader:
            await bus.link.jetstream.publish(job, b"nonsense")
            end = await anext(reader)
            assert isinstance(end, End)
            assert (end.outcome, end.code) == ("error", "internal")
            while await bus.queue.jobs():
                await asyncio.sleep(0.01)
    finally:
        await bus.close()
