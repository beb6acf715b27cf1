"""Every metric of every service, declared once; dashboards and the bench read these names."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_LATENCY_S: Final = (
    0.005,
    0.01,
    0.02,
    0.03,
    0.05,
    0.075,
    0.1,
    0.15,
    0.2,
    0.3,
    0.5,
    0.75,
    1.0,
    2.0,
    5.0,
)
_SLACK_S: Final = (-1.0, -0.1, 0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_STEP_S: Final = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.5)
_BATCH: Final = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)


class Metrics:
    """The process's metrics, in a registry of their own so that tests never share counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        r = self.registry
        self.ttfp = Histogram(
            "tts_ttfp_seconds",
            "Request accepted to first audio handed to the client.",
            ["stage"],
            buckets=_LATENCY_S,
            registry=r,
        )
        self.chunks = Counter(
            "tts_stream_chunks",
            "Audio chunks sent, by whether each came in time for playback.",
            ["viable"],
            registry=r,
        )
        self.streams = Counter(
            "tts_streams",
            "Requests ended, by outcome and by whether playback never ran dry.",
            ["outcome", "viable"],
            registry=r,
        )
        self.underrun = Counter(
            "tts_underrun_seconds", "Silence a listener heard because audio came late.", registry=r
        )
        self.slack = Histogram(
            "tts_playback_slack_seconds",
            "Playback left at the listener when a chunk is sent.",
            ["stage"],
            buckets=_SLACK_S,
            registry=r,
        )
        self.rtf = Histogram(
            "tts_rtf_ratio",
            "Time to produce a request's audio over its duration.",
            buckets=(0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0, 1.2, 2.0),
            registry=r,
        )
        self.active = Gauge("tts_active_streams", "Streams in work.", ["stage"], registry=r)
        self.queue_wait = Histogram(
            "tts_queue_wait_seconds",
            "Job published to job started.",
            ["stage"],
            buckets=_LATENCY_S,
            registry=r,
        )
        self.stage_duration = Histogram(
            "tts_stage_duration_seconds", "One engine step.", ["stage"], buckets=_STEP_S, registry=r
        )
        self.batch = Histogram(
            "tts_batch_size", "Streams in one engine step.", ["stage"], buckets=_BATCH, registry=r
        )
        self.kv_blocks = Gauge("tts_kv_blocks", "KV-cache blocks by state.", ["state"], registry=r)
        self.recoveries = Counter(
            "tts_recoveries", "Requests taken over from another worker.", ["stage"], registry=r
        )
        self.cancel_latency = Histogram(
            "tts_cancel_latency_seconds",
            "Cancel received to slot free.",
            ["stage"],
            buckets=_LATENCY_S,
            registry=r,
        )
        self.refused = Counter(
            "tts_refused", "Requests refused at once, by reason.", ["reason"], registry=r
        )
