"""The breakdown of the wait for a first sound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ttscommon.wire.messages import Spent


def breakdown(waited_s: float, spent: Sequence[Spent]) -> dict[str, float]:
    """Seconds by stage, of `waited_s` from a request's acceptance to its first audio here.

    `bus_s` is what no stage spent: the queue for a worker, and every hop over the broker. It is
    a difference of durations, so no two machines' clocks are compared.
    """
    if not spent:
        return {}
    found = {"bus_s": round(max(0.0, waited_s - sum(s.total_s for s in spent)), 6)}
    for one in spent:
        found[f"{one.stage}_s"] = round(one.total_s, 6)
        found[f"{one.stage}_engine_s"] = round(one.engine_s, 6)
    return found


def server_timing(found: Mapping[str, float]) -> str:
    """The same as a W3C Server-Timing header (milliseconds)."""
    return ", ".join(f"{name.removesuffix('_s')};dur={1e3 * s:.3f}" for name, s in found.items())
