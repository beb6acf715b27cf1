"""One trace leads from a client's request through the bus to both stages and back."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from antiphon.stack import LocalStack, StackConfig
from tests.otlp import OtlpReceiver, ReceivedSpan
from tests.waits import until
from ttscommon.process.settings import ServiceSettings

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
CLIENT = {"traceparent": f"00-{TRACE_ID}-b7ad6b7169203331-01"}
TEXT = "The tide is coming in, and the boats along the quay begin to lift and turn. " * 3


@asynccontextmanager
async def traced(
    tmp_path: Path, receiver: OtlpReceiver, lines: list[str]
) -> AsyncIterator[LocalStack]:
    """A stack of fakes that sends its clients' traces to `receiver`."""
    tracing = {
        "ANTIPHON_TRACING__ENDPOINT": receiver.url,
        "ANTIPHON_TRACING__SAMPLE_RATIO": "0",  # a client's own trace is kept all the same
        "OTEL_BSP_SCHEDULE_DELAY": "100",
    }
    environ = dict.fromkeys(("gateway", "talker", "vocoder"), tracing)
    config = StackConfig(port=0, engine="fake", store=tmp_path / "store", environ=environ)
    async with LocalStack(config, lambda name, line: lines.append(line)) as stack:
        yield stack


async def say(stack: LocalStack, headers: dict[str, str], kill: Callable[[], None]) -> None:
    """Speak TEXT; `kill` is called at the first sound."""
    body = {"input": TEXT, "seed": 7, "response_format": "pcm"}
    address, killed = f"{stack.url}/v1/audio/speech", False
    async with (
        httpx.AsyncClient(timeout=30) as client,
        client.stream("POST", address, json=body, headers=headers) as response,
    ):
        assert response.status_code == 200
        async for _ in response.aiter_raw():
            if not killed:
                kill()
                killed = True


def one(spans: list[ReceivedSpan], name: str, service: str = "") -> ReceivedSpan:
    [found] = [s for s in spans if s.name == name and s.service.endswith(service)]
    return found


async def test_one_trace_leads_through_every_service(tmp_path: Path) -> None:
    lines: list[str] = []
    with OtlpReceiver() as receiver:
        async with traced(tmp_path, receiver, lines) as stack:
            await say(stack, CLIENT, lambda: None)
            await until(
                lambda: (
                    any(s.name.startswith("generate") for s in receiver.of(TRACE_ID))
                    and any(s.name == "process job.voc.vesper" for s in receiver.of(TRACE_ID))
                )
            )
            metrics = f"http://127.0.0.1:{stack.children['gateway'].ports['admin']}/metrics"
            accept = {"accept": "application/openmetrics-text"}
            exported = (await httpx.AsyncClient().get(metrics, headers=accept)).text
        spans = receiver.of(TRACE_ID)
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
    assert f'trace_id="{TRACE_ID}"' in exported
    ended = [json.loads(line) for line in lines if "request.ended" in line]
    assert [event["trace_id"] for event in ended] == [TRACE_ID]


def one_by_id(spans: list[ReceivedSpan], span_id: str) -> ReceivedSpan:
    [found] = [span for span in spans if span.span_id == span_id]
    return found


@pytest.mark.slow
async def test_a_takeover_is_part_of_the_trace(tmp_path: Path) -> None:
    with OtlpReceiver() as receiver:
        async with traced(tmp_path, receiver, []) as stack:
            await say(stack, CLIENT, stack.children["vocoder-1"].kill)
            await until(lambda: any(s.name == "takeover" for s in receiver.of(TRACE_ID)))
            await until(lambda: any(s.name.startswith("generate") for s in receiver.of(TRACE_ID)))
        spans = receiver.of(TRACE_ID)
    takeover = one(spans, "takeover")
    job = one_by_id(spans, takeover.parent_id)
    assert job.name == "process job.voc.vesper"
    assert job.attributes["antiphon.epoch"] > 1


@pytest.mark.slow
async def test_requests_that_nobody_traces_send_nothing(tmp_path: Path) -> None:
    with OtlpReceiver() as receiver:
        async with traced(tmp_path, receiver, []) as stack:
            await say(stack, {}, lambda: None)
        assert receiver.spans == []


@pytest.mark.slow
async def test_a_receiver_that_is_away_disturbs_nobody(tmp_path: Path) -> None:
    with OtlpReceiver() as receiver:
        pass
    async with traced(tmp_path, receiver, []) as stack:
        await say(stack, CLIENT, lambda: None)


@pytest.mark.parametrize("endpoint", ["", "http://collector:4318"])
def test_an_empty_endpoint_means_no_traces(endpoint: str) -> None:
    settings = ServiceSettings.load({"ANTIPHON_TRACING__ENDPOINT": endpoint})
    assert settings.tracing.endpoint == (endpoint or None)
