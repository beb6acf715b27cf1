"""Loading the SNAC codec."""

from __future__ import annotations

from pathlib import Path

from ttsfamilies.base.codec.loading import CodecOptions
from ttsfamilies.orpheus.snac.codec import Snac


def load(name: str, folder: Path, how: CodecOptions) -> Snac:
    """A codec's folder as model `name`; raises CheckpointError. Windows are its own."""
    return Snac.load(name, folder, "cpu" if how.device is None else str(how.device.where))
