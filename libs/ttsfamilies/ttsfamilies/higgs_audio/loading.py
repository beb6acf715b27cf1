"""Loading a Higgs Audio checkpoint."""

from __future__ import annotations

from pathlib import Path

import structlog

from ttsfamilies.base.talker.loading import ModelOptions
from ttsfamilies.higgs_audio.config import load_config
from ttsfamilies.higgs_audio.family import HiggsAudio

log_ = structlog.get_logger(__name__)


def load(name: str, folder: Path, how: ModelOptions) -> HiggsAudio:
    """A checkpoint's folder as model `name`; raises CheckpointError."""
    if load_config(folder).third:
        log_.warning("weights.research_only", model=name, family="higgs_audio", version=3)
    return HiggsAudio.load(name, folder, device=how.place, dtype=how.dtype, codec=how.codec)
