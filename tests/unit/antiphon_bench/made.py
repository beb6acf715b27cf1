"""Results as runs leave them."""

from typing import Any, Final

from antiphon_bench.results import GeneratorHealth, RequestResult

HEALTH: Final = GeneratorHealth(
    processes=1,
    cpu_share=0.1,
    loop_lag_p50_s=0.0,
    loop_lag_p99_s=0.001,
    loop_lag_max_s=0.002,
    dispatch_lag_p99_s=0.001,
    dispatch_lag_max_s=0.002,
)
_PLAIN: Final[dict[str, Any]] = {
    "index": 0, "scheduled_s": 0.0, "lag_s": 0.0, "measured": True, "text": "A word.",
    "voice": "slt", "outcome": "ok", "e2e_s": 1.0,
}  # fmt: skip


def result(**fields: Any) -> RequestResult:
    """Of a request that was measured and heard, but for these fields."""
    return RequestResult(**(_PLAIN | fields))
