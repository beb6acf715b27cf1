"""Higgs Audio's codec in the engine: rows of staggered codes, in windows that are exact."""

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
from ttsfamilies.higgs_audio.codec.net import HiggsDecoder, load_decoder

# A codebook that has not begun, and one that is over.
_SPECIALS: Final = 2


def load(name: str, folder: Path, how: CodecOptions = ON_CPU) -> HiggsCodec:
    """A codec's folder; raises CheckpointError."""
    return HiggsCodec(name, load_decoder(folder, how.where))


class HiggsFrames(WindowedCodec):
    """A loaded decoder. The codes say who speaks; the voice is not looked at."""

    def __init__(self, name: str, net: HiggsDecoder) -> None:
        c, self._net = net.sizes, net
        codes = Field((c.codebooks,), "i2", c.codebook_size)
        rates = c.acoustic_model_config.upsampling_ratios
        told = c.sample_rate, c.frame_samples, surrounding_samples(rates)
        self.spec = windowed_spec(name, "higgs_audio", *told, codes)

    def sound(self, codes: Tensor, stream: WindowStream, first: int) -> Tensor:
        del stream, first
        samples: Tensor = self._net(codes.to(self._net.narrow.weight.device))
        return samples


class HiggsCodec(Staggered):
    """Shown rows, as the talker logs them."""

    def __init__(self, name: str, net: HiggsDecoder) -> None:
        c = net.sizes
        stagger = Stagger.even(c.codebooks)
        super().__init__(HiggsFrames(name, net), stagger, c.codebook_size + _SPECIALS)
