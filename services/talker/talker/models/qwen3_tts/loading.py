"""Loading a Qwen3-TTS checkpoint."""

from __future__ import annotations

from pathlib import Path

from talker.models.loading import ModelOptions
from talker.models.qwen3_tts.family import Qwen3Tts


def load(name: str, folder: Path, how: ModelOptions) -> Qwen3Tts:
    """A checkpoint's folder as model `name`; raises CheckpointError."""
    return Qwen3Tts.load(name, folder, pads=how.pads, device=how.place, dtype=how.dtype)
