"""Loading the half of a Kokoro checkpoint that makes sound."""

from __future__ import annotations

from pathlib import Path

from ttsfamilies.base.codec.loading import CodecOptions
from ttsfamilies.kokoro.codec.codec import Kokoro


def load(name: str, folder: Path, how: CodecOptions) -> Kokoro:
    """A checkpoint's folder as model `name`; raises CheckpointError. Segments are whole."""
    return Kokoro.load(name, folder, "cpu" if how.device is None else str(how.device.where))
