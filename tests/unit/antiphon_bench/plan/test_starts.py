"""A start's parts are summed, and the slowest process of a kind counts."""

from __future__ import annotations

import pytest
from prometheus_client import generate_latest

from antiphon_bench.plan.measuring import slowest
from ttscommon.process.metrics import Metrics


def page(stage: str, **parts: float) -> str:
    """As a process writes it whose start had these parts."""
    lines = [
        f'tts_startup_seconds{{stage="{stage}",part="{part}"}} {seconds}'
        for part, seconds in parts.items()
    ]
    return "# TYPE tts_startup_seconds gauge\n" + "\n".join([*lines, "tts_bus_up 1.0", ""])


def test_parts_are_summed_and_the_slowest_of_a_kind_counts() -> None:
    pages = [
        page("talker", load=1.5, warm_up=2.0),
        page("talker", load=4.0),
        page("gateway", bus=1),
    ]
    assert slowest(pages) == pytest.approx({"talker": 4.0, "gateway": 1.0})


def test_a_process_that_has_not_started_says_nothing() -> None:
    assert slowest(["# TYPE tts_bus_up gauge\ntts_bus_up 1.0\n", ""]) == {}


def test_what_a_process_exports_is_read() -> None:
    metrics = Metrics("m")
    with metrics.startup.part("load"):
        pass
    metrics.startup.finish("vocoder")
    page = generate_latest(metrics.registry).decode()
    waited_s = metrics.registry.get_sample_value(
        "tts_startup_waited_seconds", {"stage": "vocoder", "model": "m"}
    )
    assert waited_s is not None
    started_s = sum(metrics.startup.parts.values())
    assert slowest([page])["vocoder"] == pytest.approx(started_s - waited_s)


def test_what_a_start_waited_for_a_processor_is_not_counted() -> None:
    waited = 'tts_startup_waited_seconds{stage="talker"} 1.5\n'
    assert slowest([page("talker", load=4.0) + waited]) == pytest.approx({"talker": 2.5})
