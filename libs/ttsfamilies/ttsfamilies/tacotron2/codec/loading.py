"""Loading the postnet and the generator of a Tacotron 2 checkpoint."""

from __future__ import annotations

from pathlib import Path

from ttsfamilies.base.codec.loading import CodecOptions
from ttsfamilies.tacotron2.codec.codec import Overlap, OverlappingCodec, TacotronCodec
from ttsfamilies.tacotron2.codec.net import load_vocoder


def load(name: str, folder: Path, how: CodecOptions) -> TacotronCodec:
    """A checkpoint's folder as model `name`; raises CheckpointError."""
    net, config = load_vocoder(folder, how.where)
    if how.windows is None:
        return TacotronCodec(name, net, config)
    return OverlappingCodec(name, net, config, Overlap(*how.windows))
