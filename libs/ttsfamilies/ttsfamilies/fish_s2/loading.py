"""Loading a Fish Audio S2 checkpoint."""

from __future__ import annotations

from pathlib import Path

import structlog

from ttsfamilies.base.talker.loading import ModelOptions
from ttsfamilies.fish_s2.family import FishS2

log_ = structlog.get_logger(__name__)


def load(name: str, folder: Path, how: ModelOptions) -> FishS2:
    """A checkpoint's folder as model `name`; raises CheckpointError."""
    log_.warning(
        "weights.research_only",
        model=name,
        family="fish_s2",
        hosted="hosted and commercial use need a contract with Fish Audio",
    )
    return FishS2.load(name, folder, device=how.place, dtype=how.dtype)
