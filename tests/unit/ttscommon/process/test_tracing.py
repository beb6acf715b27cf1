"""Spans of jobs and engine steps; what they are worth while nobody traces: nothing."""

import time
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import INVALID_SPAN_CONTEXT

from ttscommon.process import tracing
from ttscommon.process.settings import ServiceSettings, TracingSettings
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.subjects import TALKER

REQUEST = SpeechRequest("r1", "vesper", "slt", "Hello.", created_unix_s=1.0)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """What is traced, by a provider of this test's own."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "tracer", provider.get_tracer("test"))
    yield exporter
    provider.shutdown()


def named(spans: InMemorySpanExporter, name: str) -> ReadableSpan:
    [found] = [span for span in spans.get_finished_spans() if span.name == name]
    return found


def test_a_job_carries_its_trace_to_the_worker(spans: InMemorySpanExporter) -> None:
    headers: dict[str, str] = {}
    with tracing.sending(TALKER, REQUEST, headers):
        pass
    with tracing.processing(TALKER, REQUEST, 1, headers):
        tracing.first_chunk(0.02)
        tracing.first_chunk(0.02)
    sent, job = named(spans, "send job.talk.vesper"), named(spans, "process job.talk.vesper")
    context = sent.get_span_context()
    assert job.parent is not None
    assert context is not None
    assert job.parent.span_id == context.span_id
    assert named(spans, "queue").start_time == 1_000_000_000
    engine = named(spans, "engine")
    assert engine.end_time is not None
    assert engine.start_time is not None
    assert engine.end_time - engine.start_time == pytest.approx(20_000_000, abs=1000)


def test_a_job_that_ends_without_a_chunk_ends_its_spans(spans: InMemorySpanExporter) -> None:
    with tracing.processing(TALKER, REQUEST, 2, {}):
        pass
    assert {span.name for span in spans.get_finished_spans()} == {
        "takeover",
        "process job.talk.vesper",
    }


def test_a_step_is_linked_to_the_requests_it_was_of(spans: InMemorySpanExporter) -> None:
    with tracing.processing(TALKER, REQUEST, 1, {}) as job:
        jobs = {"r1": job.get_span_context(), "untraced": INVALID_SPAN_CONTEXT}
        steps = tracing.StepSpans("talker", jobs.get, one_in=1)
        steps.observe(0.01, ["untraced"])
        steps.observe(0.01, ["r1", "untraced", "ended"])
    step = named(spans, "step talker")
    assert [link.context for link in step.links] == [jobs["r1"]]
    assert step.attributes is not None
    assert step.attributes["antiphon.streams"] == 3
    assert step.parent is None


def test_phases_before_the_first_chunk_are_spans_below_it(spans: InMemorySpanExporter) -> None:
    now = time.monotonic()
    with tracing.processing(TALKER, REQUEST, 1, {}):
        tracing.phase("prefill", now - 0.02, now - 0.01)
        tracing.first_chunk(0.03)
        tracing.phase("prefill", now - 0.02, now - 0.01)
    prefill, first = named(spans, "prefill"), named(spans, "first chunk")
    assert prefill.parent == first.get_span_context()
    assert prefill.end_time is not None
    assert prefill.start_time is not None
    assert prefill.end_time - prefill.start_time == pytest.approx(10_000_000, abs=1000)


def test_without_an_endpoint_nothing_is_traced_or_sent() -> None:
    assert ServiceSettings.load({"ANTIPHON_TRACING__ENDPOINT": ""}).tracing.endpoint is None
    tracing.configure_traces("talker", TracingSettings())()
    headers: dict[str, str] = {}
    with tracing.sending(TALKER, REQUEST, headers):
        pass
    assert headers == {}
    span = tracing.request_span("r1", "vesper", "slt", "")
    assert not span.is_recording()
    assert tracing.trace_id(span) is None
    tracing.finish(span)
