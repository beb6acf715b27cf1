"""Loading a DAC codec."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ttscommon.engine.stagger import Stagger
from ttsfamilies.base.codec.base import Codec
from ttsfamilies.base.codec.loading import CodecOptions
from ttsfamilies.base.codec.staggered import Staggered
from ttsfamilies.zonos.dac.codec import Dac

# Behind the codes of a codebook stand an end and a mask, as Zonos draws them.
_OTHERS: Final = 2


def load(name: str, folder: Path, how: CodecOptions) -> Codec:
    """A codec's folder as model `name`; raises CheckpointError. Windows are its own.

    Its talker logs rows, whose codes are staggered.
    """
    codec = Dac.load(name, folder, "cpu" if how.device is None else str(how.device.where))
    stagger = Stagger.even(codec.sizes.n_codebooks)
    return Staggered(codec, stagger, codec.sizes.codebook_size + _OTHERS)
