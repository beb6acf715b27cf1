"""DAC in the engine: windows that are exact."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from torch import Tensor

from ttscommon.wire.fields import Field
from ttsfamilies.base.codec.snake import reach
from ttsfamilies.base.codec.windowed import WindowedCodec, WindowStream, windowed_spec
from ttsfamilies.zonos.dac.net import DacDecoder, load_decoder


class Dac(WindowedCodec):
    """A loaded decoder. The codes say who speaks; the voice is not looked at."""

    def __init__(self, name: str, net: DacDecoder) -> None:
        c = self.sizes = net.sizes
        self._net = net
        codes = Field((c.n_codebooks,), "i2", c.codebook_size)
        rates = c.sampling_rate, c.frame_samples, reach(c.upsampling_ratios)
        self.spec = windowed_spec(name, "dac", *rates, codes)

    @classmethod
    def load(cls, name: str, folder: Path, device: str = "cpu") -> Self:
        """Read a codec's folder; raises CheckpointError."""
        return cls(name, load_decoder(folder, device))

    def sound(self, codes: Tensor, stream: WindowStream, first: int) -> Tensor:
        del stream, first
        samples: Tensor = self._net(codes.to(next(self._net.parameters()).device))
        return samples
