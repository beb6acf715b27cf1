"""Loading a GLM-4-Voice checkpoint."""

from __future__ import annotations

from pathlib import Path

from ttsfamilies.base.talker.loading import ModelOptions
from ttsfamilies.glm_voice.family import GlmVoice


def load(name: str, folder: Path, how: ModelOptions) -> GlmVoice:
    """A checkpoint's folder as model `name`; raises CheckpointError."""
    return GlmVoice.load(name, folder, device=how.place, dtype=how.dtype)
