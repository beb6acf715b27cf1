"""Loading a DAC codec."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ttscommon.engine.stagger import Stagger
from vocoder.codecs.base import Codec
from vocoder.codecs.dac.codec import Dac
from vocoder.codecs.loading import CodecOptions
from vocoder.codecs.staggered import Staggered

# Behind the codes of a codebook stand an end and a mask, as Zonos draws them.
_OTHERS: Final = 2


def load(name: str, folder: Path, how: CodecOptions) -> Codec:
    """A codec's folder as model `name`; raises CheckpointError. Windows are its own.

    Its talker logs rows, whose codes are staggered.
    """
    codec = Dac.load(name, folder, "cpu" if how.device is None else str(how.device.where))
    stagger = Stagger.even(codec.sizes.n_codebooks)
    return Staggered(codec, stagger, codec.sizes.codebook_size + _OTHERS)
