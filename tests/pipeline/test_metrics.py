"""What the services export is what a client of the same run saw."""

import asyncio
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from antiphon.stack import LocalStack
from antiphon_bench.config import Poisson, RunConfig, Target
from antiphon_bench.results import Summary
from antiphon_bench.run import run

# Only a text that came whole counts for the real-time factor, and its end may come late on a busy
# machine.
GATEWAY = {"ANTIPHON_MAX_STREAMS": "12", "ANTIPHON_COALESCE_S": "0.1"}
# Many more requests than there is room for: most are refused while the others are spoken.
CROWDED = pytest.mark.parametrize(
    "stack",
    [{"engine": "fake", "environ": {"gateway": GATEWAY}}],
    indirect=True,
)
OF_ENGINES = {
    "tts_active_streams",
    "tts_queue_wait_seconds",
    "tts_stage_duration_seconds",
    "tts_batch_size",
    "tts_ttfp_seconds",
    "tts_recoveries",
    "tts_cancel_latency_seconds",
}
EXPORTED = {
    "gateway": {"tts_ttfp_seconds", "tts_stream_chunks", "tts_streams", "tts_active_streams",
                "tts_underrun_seconds", "tts_playback_slack_seconds", "tts_rtf_ratio",
                "tts_refused", "tts_steady_chunks"},
    "talker-1": {*OF_ENGINES, "tts_kv_blocks"},
    "vocoder-1": {*OF_ENGINES, "tts_playback_slack_seconds", "tts_parked_streams"},
}  # fmt: skip


class Exported:
    """One scrape of one service."""

    def __init__(self, text: str) -> None:
        families = list(text_string_to_metric_families(text))
        self.names = {family.name for family in families}
        self._samples = [sample for family in families for sample in family.samples]

    def __call__(self, name: str, **labels: str) -> float:
        """The sum of the samples of `name` that carry `labels`."""
        return sum(
            s.value for s in self._samples if s.name == name and labels.items() <= s.labels.items()
        )


async def scrape(stack: LocalStack) -> dict[str, Exported]:
    async with httpx.AsyncClient() as client:
        found = {}
        for name in EXPORTED:
            port = stack.children[name].ports["admin"]
            response = await client.get(f"http://127.0.0.1:{port}/metrics")
            found[name] = Exported(response.text)
        return found


async def at_rest(stack: LocalStack) -> dict[str, Exported]:
    """The metrics when nothing is in work any more."""
    async with asyncio.timeout(10):
        while True:
            found = await scrape(stack)
            if not any(one("tts_active_streams") for one in found.values()):
                return found
            await asyncio.sleep(0.1)


def measured(stack: LocalStack, out: Path) -> Summary:
    return run(
        RunConfig(
            target=Target(url=stack.url, protocol="ws"),
            arrivals=Poisson(rate=30.0),
            texts="short",
            warmup_s=0.0,
            duration_s=5.0,
            out=out,
        )
    )


@pytest.mark.slow
@CROWDED
async def test_the_services_count_what_the_bench_counts(stack: LocalStack, tmp_path: Path) -> None:
    seen = await asyncio.to_thread(measured, stack, tmp_path / "bench")
    found = await at_rest(stack)
    for name, names in EXPORTED.items():
        assert names <= found[name].names
    gateway = found["gateway"]
    assert seen.ok > 12
    assert seen.refused > 12
    assert seen.failed == 0
    assert gateway("tts_streams_total", outcome="ok") == seen.ok
    # Admitted, and refused before its first sound, as the machine became slower meanwhile.
    given_up = gateway("tts_streams_total", outcome="refused")
    assert gateway("tts_streams_total") == seen.ok + given_up
    assert gateway("tts_refused_total", reason="overloaded") == seen.refused
    assert gateway("tts_stream_chunks_total") == seen.chunks
    assert gateway("tts_ttfp_seconds_count", stage="gateway") == seen.ok
    assert gateway("tts_rtf_ratio_count") == seen.ok
    # The bench counts what was heard while it looked.
    assert seen.audio_s <= gateway("tts_audio_seconds_total") < 1.5 * seen.audio_s
    assert gateway("tts_characters_total") > 10 * seen.ok
    # Every chunk but the first of a stream has a deadline, and so a slack.
    slacks = gateway("tts_playback_slack_seconds_count", stage="gateway")
    assert slacks == seen.chunks - seen.ok
    # The client's clock starts with its connection and ends a hop later.
    mean_s = gateway("tts_ttfp_seconds_sum", stage="gateway") / seen.ok
    assert 0.0 < mean_s < seen.quantiles["ttfp_s"].mean
    for stage in ("talker", "vocoder"):
        engine = found[f"{stage}-1"]
        # A stream is given up before its listener hears it: the stages may have begun it, or not.
        waited = engine("tts_queue_wait_seconds_count", stage=stage)
        assert seen.ok <= waited <= seen.ok + given_up
        assert seen.ok <= engine("tts_ttfp_seconds_count", stage=stage) <= waited
        assert engine("tts_stage_duration_seconds_count", stage=stage) > 0
        assert engine("tts_recoveries_total") == 0
    assert found["talker-1"]("tts_kv_blocks", state="used") == 0
