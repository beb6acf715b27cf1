"""Names, labels and the number of series that a process can make."""

from typing import get_args

from tests.unit.test_imports import ROOT
from ttscommon.process.metrics import GatewayMetrics, Metrics, RequestOutcome


def names(metrics: Metrics) -> set[str]:
    return {family.name for family in metrics.registry.collect()}


def test_a_process_exports_only_what_it_counts_and_which_version_it_is_since_when() -> None:
    assert "tts_streams" not in names(Metrics())
    assert "tts_batch_size" not in names(GatewayMetrics())
    always = {"tts_ttfp_seconds", "tts_active_streams", "tts_bus_up", "tts_build_info"}
    for metrics in (Metrics("vesper"), GatewayMetrics()):
        assert always | {"process_start_time_seconds"} <= names(metrics)


def test_a_tenant_that_is_silent_for_an_hour_gives_its_name_and_series_up() -> None:
    now = [0.0]
    metrics = GatewayMetrics(most_tenants=2, clock=lambda: now[0])
    for tenant in ("a", "b"):
        metrics.listener("vesper", tenant)
    now[0] = 3000.0
    metrics.listener("vesper", "b")
    assert metrics.listener("vesper", "c") == ("vesper", "other")
    now[0] = 3700.0
    assert metrics.listener("vesper", "c") == ("vesper", "c")
    value = metrics.registry.get_sample_value
    for tenant, there in (("a", None), ("b", 0), ("c", 0)):
        assert value("tts_characters_total", {"model": "vesper", "tenant": tenant}) == there


def test_names_go_to_tenants_that_speak_not_to_the_first_of_a_long_file() -> None:
    metrics = GatewayMetrics(most_tenants=2)
    metrics.expect("vesper", ["a", "b", "c"])
    assert metrics.listener("vesper", "c") == ("vesper", "c")


def test_counters_start_at_zero_when_a_listener_is_first_seen() -> None:
    metrics = GatewayMetrics()
    labels = metrics.listener("vesper", "acme")
    assert labels == ("vesper", "acme")
    named = {"model": "vesper", "tenant": "acme"}
    for outcome in get_args(RequestOutcome):
        series = {"outcome": outcome, "viable": "true", **named}
        assert metrics.registry.get_sample_value("tts_streams_total", series) == 0
    assert metrics.registry.get_sample_value("tts_underrun_seconds_total", named) == 0


def test_operators_are_told_of_every_outcome_of_a_request() -> None:
    lines = (ROOT / "docs/operations.md").read_text("utf-8").splitlines()
    (row,) = (line for line in lines if line.startswith("| `tts_streams_total"))
    assert all(f"`{outcome}`" in row for outcome in get_args(RequestOutcome))


def test_chunks_of_a_streams_first_second_say_nothing_about_load() -> None:
    metrics = GatewayMetrics()
    metrics.listener("vesper", "acme")
    given = ((0.04, 0.08), (0.1, 0.9), (0.9, 1.0), (0.1, 2.0), (0.3, 3.0), (-0.2, 4.0))
    for slack_s, before_s in given:
        metrics.chunk("gateway", slack_s, before_s, "vesper")
    value = metrics.registry.get_sample_value
    labels = {"stage": "gateway", "model": "vesper"}
    for in_hand, count in (("none", 1), ("tight", 1), ("ample", 2)):
        assert value("tts_steady_chunks_total", {"in_hand": in_hand, **labels}) == count
    assert value("tts_playback_slack_seconds_count", labels) == 6


def test_a_stage_does_not_answer_for_what_was_late_when_it_came() -> None:
    metrics = Metrics("vesper")
    for given_s in (0.1, -3.0, 0.5):
        metrics.chunk("vocoder", -0.1, 5.0, given_s=given_s)
    labels = {"in_hand": "none", "stage": "vocoder", "model": "vesper"}
    assert metrics.registry.get_sample_value("tts_steady_chunks_total", labels) == 1
