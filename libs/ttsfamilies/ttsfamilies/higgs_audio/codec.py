"""Higgs Audio's codec in the engine: rows of delayed codes, in windows that are exact."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.nn.weights import Source, filled, named, unfilled
from ttscommon.wire.fields import Field
from ttsfamilies.base.codec.dac import WaveDecoder, decoder_sources
from ttsfamilies.base.codec.options import ON_CPU, CodecOptions
from ttsfamilies.base.codec.windowed import DelayedCodec, surrounding_samples, windowed_spec
from ttsfamilies.higgs_audio.sizes import HiggsCodecSizes, load_sizes, parts, tensors_of


class HiggsLevel(nn.Module):
    """A codebook of narrow entries, and their way to what is quantised."""

    def __init__(self, c: HiggsCodecSizes) -> None:
        super().__init__()
        self.codebook = nn.Embedding(c.codebook_size, c.codebook_dim)
        self.out = nn.Linear(c.codebook_dim, c.latent)

    def forward(self, codes: Tensor) -> Tensor:
        """[frames] int64 -> [frames, latent]."""
        return self.out(self.codebook(codes))


class HiggsDecoder(nn.Module):
    """Frames of one stream to its samples."""

    def __init__(self, c: HiggsCodecSizes) -> None:
        super().__init__()
        acoustic, self.sizes = c.acoustic_model_config, c
        self.levels = nn.ModuleList(HiggsLevel(c) for _ in range(c.codebooks))
        self.narrow = nn.Linear(c.latent, acoustic.hidden_size)
        self.decoder = WaveDecoder(
            acoustic.hidden_size,
            acoustic.decoder_hidden_size,
            acoustic.upsampling_ratios,
            bounded=False,
        )

    def forward(self, codes: Tensor) -> Tensor:
        """Codes [frames, codebooks] int64 -> [frames * frame_samples]; silence surrounds them."""
        columns = zip(self.levels, codes.T, strict=True)
        latent = torch.stack([level(column) for level, column in columns]).sum(0)
        return self.decoder(self.narrow(latent).T[None])


def sources(net: HiggsDecoder, theirs: str = "") -> dict[str, Source]:
    """Every parameter's published tensors, whose names begin with `theirs`."""
    found = decoder_sources(net.decoder, "decoder.", f"{theirs}acoustic_decoder.")
    return found | named(net, _NAMES, theirs=theirs)


_NAMES: Final = {
    "narrow": "fc2",
    "levels.*.codebook.weight": "quantizer.quantizers.*.codebook.embed",
    "levels.*.out": "quantizer.quantizers.*.project_out",
}


def load_decoder(folder: Path, device: str = "cpu") -> HiggsDecoder:
    """The decoder in a codec's folder, in float32; raises CheckpointError."""
    sizes, theirs = load_sizes(folder)
    net, shards = unfilled(HiggsDecoder, sizes), tensors_of(folder)
    return filled(net, sources(net, theirs), shards, others=parts(theirs), device=device)


# A codebook that has not begun, and one that is over.
_SPECIALS: Final = 2


def load(name: str, folder: Path, how: CodecOptions = ON_CPU) -> HiggsCodec:
    """A codec's folder; raises CheckpointError."""
    return HiggsCodec(name, load_decoder(folder, how.where))


class HiggsCodec(DelayedCodec):
    """See DelayedCodec."""

    def __init__(self, name: str, net: HiggsDecoder) -> None:
        c = net.sizes
        codes = Field((c.codebooks,), "i2", c.codebook_size)
        reach = surrounding_samples(c.acoustic_model_config.upsampling_ratios)
        spec = windowed_spec(name, "higgs_audio", c.sample_rate, c.frame_samples, reach, codes)
        super().__init__(net, spec, c.codebook_size + _SPECIALS)
