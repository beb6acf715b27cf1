"""Loading Higgs Audio's codec."""

from __future__ import annotations

from pathlib import Path

from vocoder.codecs.higgs_audio.codec import HiggsCodec
from vocoder.codecs.loading import CodecOptions


def load(name: str, folder: Path, how: CodecOptions) -> HiggsCodec:
    """A codec's folder as model `name`; raises CheckpointError. Windows are its own."""
    return HiggsCodec.load(name, folder, "cpu" if how.device is None else str(how.device.where))
