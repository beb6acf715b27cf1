"""An engine's measurements, as its edge hears of them four times a second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class EngineState:
    """See StageEngine. turns: that its thread has made so far."""

    step_seconds: Mapping[int, float] = field(default_factory=dict)
    frame_seconds: float = 0.0
    kv_positions: tuple[int, int] = (0, 0)
    slowed: float = 1.0
    turns: int = 0
