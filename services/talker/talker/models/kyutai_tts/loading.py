"""Loading a Kyutai TTS checkpoint."""

from __future__ import annotations

from pathlib import Path

from talker.models.kyutai_tts.family import KyutaiTts
from talker.models.loading import ModelOptions


def load(name: str, folder: Path, how: ModelOptions) -> KyutaiTts:
    """A checkpoint's folder as model `name`; raises CheckpointError."""
    return KyutaiTts.load(name, folder, device=how.place, dtype=how.dtype)
