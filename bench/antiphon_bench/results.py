"""Records of a run, as they are written to disk (JSON lines and JSON)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

Outcome = Literal["ok", "refused", "error"]


class RequestResult(msgspec.Struct, frozen=True, kw_only=True):
    """One request as the client saw it.

    Times are seconds from the moment the request was started, connecting included, but for
    `scheduled_s` (from the run's start) and `lag_s` (how late the generator started it).
    `trace_s` and `trace_samples` are the arrival time and the size of every chunk.
    """

    index: int
    scheduled_s: float
    lag_s: float
    measured: bool
    text: str
    voice: str
    outcome: Outcome
    error: str | None = None
    message: str | None = None
    retry_after_s: float | None = None
    request_id: str | None = None
    sample_rate: int | None = None
    connect_s: float | None = None
    ttfb_s: float | None = None
    ttfp_s: float | None = None
    ttfa_s: float | None = None
    e2e_s: float
    audio_s: float = 0.0
    rtf: float | None = None
    chunks: int = 0
    viable_chunks: int = 0
    viable: bool = False
    min_slack_s: float | None = None
    underruns: int = 0
    underrun_s: float = 0.0
    server: dict[str, float] = {}
    trace_s: list[float] = []
    trace_samples: list[int] = []

    @property
    def started_s(self) -> float:
        """Start on the run's clock."""
        return self.scheduled_s + self.lag_s


class GeneratorHealth(msgspec.Struct, frozen=True, kw_only=True):
    """How well the generator itself kept time; a late generator measures itself."""

    processes: int
    cpu_share: float
    """CPU time over wall time, of the busiest process; 1.0 is one full core."""
    loop_lag_p50_s: float
    loop_lag_p99_s: float
    loop_lag_max_s: float
    dispatch_lag_p99_s: float
    dispatch_lag_max_s: float

    @property
    def trustworthy(self) -> bool:
        """False when lateness of the generator could show in the figures."""
        return self.loop_lag_p99_s < 0.02 and self.dispatch_lag_p99_s < 0.02


class Quantiles(msgspec.Struct, frozen=True, kw_only=True):
    """Distribution of one quantity."""

    count: int
    mean: float
    min: float
    p10: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """One run in figures; only requests started inside the measured window count."""

    label: str
    url: str
    protocol: str
    arrivals: str
    rate: float
    """Offered load: requests/s (open loop), or concurrent users (closed loop)."""
    texts: str
    seed: int
    started: str
    duration_s: float
    offered: int
    ok: int
    refused: int
    failed: int
    errors: dict[str, int]
    viable_streams: int
    viable_stream_share: float | None
    """Viable streams / streams that were accepted (ok and failed)."""
    served_viable_share: float | None
    """Viable streams / requests offered: refusals and failures count against it."""
    chunks: int
    viable_chunk_share: float | None
    underruns: int
    underrun_s: float
    audio_s: float
    """Audio that arrived inside the window, for any request."""
    audio_s_per_s: float
    mean_streams: float
    peak_streams: int
    peak_listeners: int
    quantiles: dict[str, Quantiles]
    server: dict[str, Quantiles]
    generator: GeneratorHealth


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """All points of a sweep, in order of rate, and what was found."""

    label: str
    ttfp_p95_s: float
    viable_share: float
    goodput: float | None
    points: list[Summary]


def write_json(path: Path, record: object) -> None:
    """Writes one record, indented for people."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")


def write_lines(path: Path, results: Iterable[RequestResult]) -> None:
    """Writes one JSON object a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.Encoder().encode_lines(list(results)))


def read_lines(path: Path) -> list[RequestResult]:
    """Reads what `write_lines` wrote; raises msgspec.DecodeError for anything else."""
    return msgspec.json.Decoder(RequestResult).decode_lines(path.read_bytes())


def read_summary(path: Path) -> Summary:
    """Reads a run's summary.json."""
    return msgspec.json.decode(path.read_bytes(), type=Summary)


def read_sweep(path: Path) -> Sweep:
    """Reads a sweep.json."""
    return msgspec.json.decode(path.read_bytes(), type=Sweep)
