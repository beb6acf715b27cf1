"""What one stack of real processes shows: ways in, the examples, the store, and traces through it.

Its engines need no model. Only the last test, which is slow, disturbs a process.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from websockets.asyncio.server import ServerConnection, serve

from antiphon.client import Audio, Finished, SpeechOptions, Started, speak, voices
from antiphon.say import whole
from antiphon.stack import LocalStack, StackConfig
from tests.native import Client
from tests.otlp import OtlpReceiver, ReceivedSpan
from tests.waits import until
from ttscommon.bus import Bus
from ttscommon.wire.subjects import STAGES

pytestmark = pytest.mark.asyncio(loop_scope="module")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TEXT = "The tide came in. Can you hear the bells?"
BODY = {"input": TEXT, "seed": 5, "sample_rate": 16_000}


@pytest.fixture(scope="module")
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as running:
        yield running


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """What the services log."""
    return []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(
    receiver: OtlpReceiver, lines: list[str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[LocalStack]:
    """Fakes that send their clients' traces to `receiver`, and none of their own."""
    tracing = {
        "ANTIPHON_TRACING__ENDPOINT": receiver.url,
        "ANTIPHON_TRACING__SAMPLE_RATIO": "0",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
    }
    environ = dict.fromkeys(("gateway", "talker", "vocoder"), tracing)
    store = tmp_path_factory.mktemp("store")
    config = StackConfig(port=0, engine="fake", store=store, environ=environ)
    async with LocalStack(config, lambda _, line: lines.append(line)) as stack:
        yield stack


async def posted(stack: LocalStack, **body: Any) -> httpx.Response:
    async with httpx.AsyncClient(base_url=stack.url, timeout=30) as http:
        return await http.post("/v1/audio/speech", json={**BODY, **body})


async def typed(stack: LocalStack, pieces: list[str]) -> tuple[bytes, dict[str, Any]]:
    """The audio and the `audio.done` of a text that is typed in `pieces`."""
    async with await Client.opened(stack.url) as client:
        await client.say(*pieces, seed=5)
        done = await client.until("audio.done")
    return client.pcm, done


async def test_every_way_in_gives_the_same_samples(running: LocalStack) -> None:
    in_full = await posted(running, stream=False, response_format="wav")
    assert in_full.status_code == 200, in_full.text
    streamed = await posted(running, response_format="pcm")
    assert len(streamed.content) > 8000
    assert streamed.content == in_full.content.partition(b"data")[2][4:]
    at_once, done = await typed(running, [TEXT])
    assert at_once == streamed.content
    assert (done["outcome"], done["samples"]) == ("ok", len(at_once) // 2)
    by_word, _ = await typed(running, [f"{word} " for word in TEXT.split()])
    assert by_word == at_once
    by_letter, _ = await typed(running, list(TEXT))
    assert by_letter == at_once
    options = SpeechOptions(seed=5, sample_rate=16_000)
    events = [event async for event in speak(running.url, whole(TEXT), options)]
    assert isinstance(events[0], Started)
    assert isinstance(events[-1], Finished)
    assert b"".join(event.pcm for event in events if isinstance(event, Audio)) == at_once
    assert [voice.id for voice in await voices(running.url)] == ["slt", "rms", "awb"]


async def test_consumers_that_were_lost_are_made_again_by_the_workers(running: LocalStack) -> None:
    bus = await Bus.connect(running.bus, "test")
    try:
        for stage in STAGES.values():
            jobs, durable = bus.link.name(stage.stream), bus.link.name(stage.durable("vesper"))
            await bus.link.jetstream.delete_consumer(jobs, durable)
        began_s = time.monotonic()
        assert (await posted(running)).status_code == 200
        assert time.monotonic() - began_s < 10
    finally:
        await bus.close()


def node() -> list[str]:
    """Node with a WebSocket, or a skip."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("no node")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True)
    major = int(version.stdout.strip().lstrip("v").split(".")[0])
    return [found] if major >= 22 else [found, "--experimental-websocket"]


async def example(
    *command: str, url: str, player: str = "cat > /dev/null"
) -> asyncio.subprocess.Process:
    """An example, run as anybody would: tokens on standard input, sound into a player."""
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "ANTIPHON_URL": url, "PLAYER": player},
    )


@pytest.mark.parametrize("language", ["python", "javascript"])
async def test_an_example_speaks_what_is_written(
    running: LocalStack, language: str, tmp_path: Path
) -> None:
    heard, url = tmp_path / "heard.pcm", running.url.replace("http", "ws")
    if language == "python":
        command = [sys.executable, str(EXAMPLES / "speak.py")]
    else:
        command = [*node(), str(EXAMPLES / "speak.mjs")]
    process = await example(*command, url=url, player=f"cat > {heard}")
    assert process.stdin is not None
    for token in TEXT.split(" "):
        process.stdin.write(f"{token} ".encode())
        await process.stdin.drain()
    process.stdin.close()
    async with asyncio.timeout(30):
        assert await process.wait() == 0
    assert heard.stat().st_size / 2 / 24_000 == pytest.approx(len(TEXT) * 1.6 / 25, rel=0.1)


async def test_no_character_is_lost_between_two_reads_and_an_error_is_shown() -> None:
    text, told = "x" * 63 + "é and the rest", []
    error = '{"type":"error","request_id":null,"error":{"message":"no room"}}'

    async def take(socket: ServerConnection) -> None:
        async for frame in socket:
            told.append(json.loads(frame))
            if told[-1]["type"] == "session.close":
                await socket.send(error)
                return

    async with serve(take, "127.0.0.1", 0) as server:
        url = f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"
        process = await example(sys.executable, str(EXAMPLES / "speak.py"), url=url)
        async with asyncio.timeout(30):
            shown, _ = await process.communicate(text.encode())
    assert "".join(one["text"] for one in told if one["type"] == "input.text") == text
    assert shown.decode().strip() == error


def traced(number: int) -> tuple[str, dict[str, str]]:
    """A client's trace, and the header that names it."""
    trace_id = f"0af7651916cd43dd8448eb211c8031{number:02x}"
    return trace_id, {"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"}


async def say(
    stack: LocalStack, headers: dict[str, str], at_first: Callable[[], None] = lambda: None
) -> str:
    """Speak a few sentences; `at_first` is called at the first sound. Returns the request's id."""
    body, waiting = {"input": TEXT * 4, "seed": 7, "response_format": "pcm"}, [at_first]
    async with (
        httpx.AsyncClient(base_url=stack.url, timeout=30) as client,
        client.stream("POST", "/v1/audio/speech", json=body, headers=headers) as response,
    ):
        assert response.status_code == 200
        async for _ in response.aiter_raw():
            if waiting:
                waiting.pop()()
        return str(response.headers["x-request-id"])


def one(spans: list[ReceivedSpan], name: str, service: str = "") -> ReceivedSpan:
    [found] = [s for s in spans if s.name == name and s.service.endswith(service)]
    return found


async def test_one_trace_leads_from_a_client_through_every_service(
    running: LocalStack, receiver: OtlpReceiver, lines: list[str]
) -> None:
    """And nothing is sent of requests that nobody traces."""
    trace_id, header = traced(1)
    request_id = await say(running, header)
    names = "generate_content vesper", "process job.talk.vesper", "process job.voc.vesper"
    await until(lambda: {*names} <= {span.name for span in receiver.of(trace_id)})
    metrics = f"http://127.0.0.1:{running.children['gateway'].ports['admin']}/metrics"
    async with httpx.AsyncClient(headers={"accept": "application/openmetrics-text"}) as client:
        exported = (await client.get(metrics)).text
    spans = receiver.of(trace_id)
    assert {span.trace_id for span in receiver.spans} == {trace_id}
    request = one(spans, "generate_content vesper", "gateway")
    assert request.parent_id == "b7ad6b7169203331"
    talk = one(spans, "process job.talk.vesper", "talker")
    vocode = one(spans, "process job.voc.vesper", "vocoder")
    assert one(spans, "send job.talk.vesper").parent_id == request.span_id
    assert talk.parent_id == one(spans, "send job.talk.vesper", "gateway").span_id
    assert one(spans, "send job.voc.vesper", "talker").parent_id == talk.span_id
    assert vocode.parent_id == one(spans, "send job.voc.vesper").span_id
    [prefill] = [s for s in spans if s.name == "prefill"]
    assert prefill.service.endswith("talker")
    assert any(s.name == "first chunk" and s.span_id == prefill.parent_id for s in spans)
    for job in (talk, vocode):
        below = {s.name for s in spans if s.parent_id == job.span_id}
        assert {"queue", "first chunk"} <= below
        first = next(s for s in spans if s.parent_id == job.span_id and s.name == "first chunk")
        assert any(s.name == "engine" and s.parent_id == first.span_id for s in spans)
    assert request.attributes["gen_ai.output.type"] == "speech"
    assert request.attributes["antiphon.outcome"] == "ok"
    assert talk.attributes["messaging.system"] == "nats"
    assert f'trace_id="{trace_id}"' in exported
    ended = [json.loads(line) for line in lines if "request.ended" in line and request_id in line]
    assert [event["trace_id"] for event in ended] == [trace_id]


@pytest.mark.slow
async def test_a_takeover_is_part_of_the_trace_and_a_receiver_that_is_away_disturbs_nobody(
    running: LocalStack, receiver: OtlpReceiver
) -> None:
    trace_id, header = traced(2)
    await say(running, header, running.children["vocoder-1"].kill)
    names = {"takeover", "process job.voc.vesper", "generate_content vesper"}
    await until(lambda: names <= {span.name for span in receiver.of(trace_id)})
    spans = receiver.of(trace_id)
    takeover = one(spans, "takeover")
    [job] = [span for span in spans if span.span_id == takeover.parent_id]
    assert job.name == "process job.voc.vesper"
    assert job.attributes["antiphon.epoch"] > 1
    receiver.stop()
    await say(running, header)
