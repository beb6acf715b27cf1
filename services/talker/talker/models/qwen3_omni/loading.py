"""Loading a Qwen3-Omni checkpoint's talker."""

from __future__ import annotations

from pathlib import Path

from talker.models.loading import ModelOptions
from talker.models.qwen3_omni.family import Qwen3Omni


def load(name: str, folder: Path, how: ModelOptions) -> Qwen3Omni:
    """A checkpoint's folder as model `name`; raises CheckpointError."""
    return Qwen3Omni.load(name, folder, device=how.place, dtype=how.dtype)
