"""Loading Higgs Audio's codec."""

from __future__ import annotations

from pathlib import Path

from ttsfamilies.base.codec.loading import CodecOptions
from ttsfamilies.higgs_audio.codec.codec import HiggsCodec


def load(name: str, folder: Path, how: CodecOptions) -> HiggsCodec:
    """A codec's folder as model `name`; raises CheckpointError. Windows are its own."""
    return HiggsCodec.load(name, folder, "cpu" if how.device is None else str(how.device.where))
