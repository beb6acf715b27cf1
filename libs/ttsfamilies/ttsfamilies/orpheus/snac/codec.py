"""SNAC in the engine: windows that are exact, with noise that is a function of the seed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from ttscommon.wire.fields import Field
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.noise import Noise, keyed
from ttsfamilies.base.codec.options import ON_CPU, CodecOptions
from ttsfamilies.base.codec.receptive_field import surrounding_samples
from ttsfamilies.base.codec.windowed import WindowedCodec, WindowStream, windowed_spec
from ttsfamilies.orpheus.snac.config import SLOTS
from ttsfamilies.orpheus.snac.net import SnacDecoder
from ttsfamilies.orpheus.snac.weights import load_decoder


def load(name: str, folder: Path, how: CodecOptions = ON_CPU) -> Snac:
    """A codec's folder; raises CheckpointError."""
    return Snac(name, load_decoder(folder, how.where))


@dataclass
class Stream(WindowStream):
    """See WindowStream."""

    noise: Noise


class Snac(WindowedCodec):
    """A loaded decoder. The codes say who speaks; the voice is not looked at."""

    def __init__(self, name: str, net: SnacDecoder) -> None:
        c = net.config
        self._net = net
        codes = Field((sum(map(len, SLOTS)),), "i2", c.codebook_size)
        rates = c.sampling_rate, c.frame_samples, surrounding_samples(c.decoder_rates)
        self.spec = windowed_spec(name, "snac", *rates, codes)

    def open(self, request: SpeechRequest, frame: int = 0) -> Stream:
        return Stream(**vars(super().open(request, frame)), noise=keyed(request.seed))

    def sound(self, codes: Tensor, stream: WindowStream, first: int) -> Tensor:
        assert isinstance(stream, Stream)
        device = next(self._net.parameters()).device
        samples: Tensor = self._net(codes.to(device), stream.noise, first)
        return samples
