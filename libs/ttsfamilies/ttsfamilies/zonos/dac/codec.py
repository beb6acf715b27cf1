"""DAC in the engine: windows that are exact."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from torch import Tensor

from ttscommon.engine.stagger import Stagger
from ttscommon.wire.fields import Field
from ttsfamilies.base.codec.options import ON_CPU, CodecOptions
from ttsfamilies.base.codec.receptive_field import surrounding_samples
from ttsfamilies.base.codec.staggered import Staggered
from ttsfamilies.base.codec.windowed import WindowedCodec, WindowStream, windowed_spec
from ttsfamilies.zonos.dac.net import DacDecoder, load_decoder

# Behind the codes of a codebook stand an end and a mask, as Zonos draws them.
_OTHERS: Final = 2


def load(name: str, folder: Path, how: CodecOptions = ON_CPU) -> Staggered:
    """A codec's folder; raises CheckpointError. Its talker logs rows, whose codes are staggered."""
    codec = Dac(name, load_decoder(folder, how.where))
    stagger = Stagger.even(codec.sizes.n_codebooks)
    return Staggered(codec, stagger, codec.sizes.codebook_size + _OTHERS)


class Dac(WindowedCodec):
    """A loaded decoder. The codes say who speaks; the voice is not looked at."""

    def __init__(self, name: str, net: DacDecoder) -> None:
        c = self.sizes = net.sizes
        self._net = net
        codes = Field((c.n_codebooks,), "i2", c.codebook_size)
        rates = c.sampling_rate, c.frame_samples, surrounding_samples(c.upsampling_ratios)
        self.spec = windowed_spec(name, "dac", *rates, codes)

    def sound(self, codes: Tensor, stream: WindowStream, first: int) -> Tensor:
        del stream, first
        samples: Tensor = self._net(codes.to(next(self._net.parameters()).device))
        return samples
