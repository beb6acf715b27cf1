"""DAC in the engine: windows that are exact."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.codec_sizes import DacSizes, load_sizes
from ttscommon.engine.nn.weights import Shards, Source, filled, named, unfilled
from ttscommon.wire.fields import Field
from ttsfamilies.base.codec.dac import Level, WaveDecoder, decoder_sources
from ttsfamilies.base.codec.options import ON_CPU, CodecOptions
from ttsfamilies.base.codec.windowed import DelayedCodec, surrounding_samples, windowed_spec

_ENCODES: Final = ("encoder.", *(f"quantizer.quantizers.{i}.in_proj." for i in range(64)))


class DacDecoder(nn.Module):
    """Frames of one stream to its samples."""

    def __init__(self, c: DacSizes) -> None:
        super().__init__()
        self.sizes = c
        self.levels = nn.ModuleList(
            Level(c.codebook_size, c.codebook_dim, c.latent) for _ in range(c.n_codebooks)
        )
        self.decoder = WaveDecoder(c.latent, c.decoder_hidden_size, c.upsampling_ratios)

    def forward(self, codes: Tensor) -> Tensor:
        """Codes [frames, codebooks] int64 -> [frames * frame_samples]; silence surrounds them."""
        columns = zip(self.levels, codes.T[:, None], strict=True)
        latent: Tensor = torch.stack([level(column) for level, column in columns]).sum(0)
        return self.decoder(latent)


def sources(net: DacDecoder) -> dict[str, Source]:
    """Every parameter's published tensors."""
    found = decoder_sources(net.decoder, "decoder.", "decoder.")
    return found | named(net, {"levels.*": "quantizer.quantizers.*"})


def load_decoder(folder: Path, device: str = "cpu") -> DacDecoder:
    """The decoder in a codec's folder, in float32; raises CheckpointError."""
    net = unfilled(DacDecoder, load_sizes(folder))
    return filled(net, sources(net), Shards.of(folder), others=_ENCODES, device=device)


# Behind the codes of a codebook stand an end and a mask, as Zonos draws them.
_OTHERS: Final = 2


def load(name: str, folder: Path, how: CodecOptions = ON_CPU) -> DelayedCodec:
    """A codec's folder; raises CheckpointError. Its talker logs rows, whose codes are delayed."""
    net = load_decoder(folder, how.where)
    c = net.sizes
    codes = Field((c.n_codebooks,), "i2", c.codebook_size)
    rates = c.sampling_rate, c.frame_samples, surrounding_samples(c.upsampling_ratios)
    spec = windowed_spec(name, "dac", *rates, codes)
    return DelayedCodec(net, spec, c.codebook_size + _OTHERS)
