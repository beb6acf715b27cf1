"""Loading a Kyutai TTS checkpoint."""

from __future__ import annotations

from pathlib import Path

from ttsfamilies.base.talker.loading import ModelOptions
from ttsfamilies.kyutai_tts.family import KyutaiTts


def load(name: str, folder: Path, how: ModelOptions) -> KyutaiTts:
    """A checkpoint's folder as model `name`; raises CheckpointError."""
    return KyutaiTts.load(name, folder, device=how.place, dtype=how.dtype)
