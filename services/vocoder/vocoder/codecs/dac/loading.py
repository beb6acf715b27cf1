"""Loading a DAC codec."""

from __future__ import annotations

from pathlib import Path

from vocoder.codecs.dac.codec import Dac
from vocoder.codecs.loading import CodecOptions


def load(name: str, folder: Path, how: CodecOptions) -> Dac:
    """A codec's folder as model `name`; raises CheckpointError. Windows are its own."""
    return Dac.load(name, folder, "cpu" if how.device is None else str(how.device.where))
