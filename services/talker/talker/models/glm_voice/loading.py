"""Loading a GLM-4-Voice checkpoint."""

from __future__ import annotations

from pathlib import Path

from talker.models.glm_voice.family import GlmVoice
from talker.models.loading import ModelOptions


def load(name: str, folder: Path, how: ModelOptions) -> GlmVoice:
    """A checkpoint's folder as model `name`; raises CheckpointError."""
    return GlmVoice.load(name, folder, device=how.place, dtype=how.dtype)
