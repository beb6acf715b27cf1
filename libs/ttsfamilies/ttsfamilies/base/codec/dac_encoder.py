"""DAC's encoder (Kumar et al., 2023): a waveform to codes. Always float32."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.codec_sizes import DacSizes, load_sizes
from ttscommon.engine.nn.weights import Shards, Source, filled, named
from ttsfamilies.base.codec.dac import UNIT, Snake, units, wide

DECODES: Final = "decoder."


class EncoderLevel(nn.Module):
    """One codebook, which says of what the ones before it left over as much as it can."""

    def __init__(self, c: DacSizes) -> None:
        super().__init__()
        self.in_proj = nn.Conv1d(c.latent, c.codebook_dim, 1)
        self.codebook = nn.Embedding(c.codebook_size, c.codebook_dim)
        self.out_proj = nn.Conv1d(c.codebook_dim, c.latent, 1)

    def forward(self, rest: Tensor) -> tuple[Tensor, Tensor]:
        """[1, latent, frames] -> codes [frames] int64, and what is left over, as it came.

        The nearest entry is that of the nearest direction.
        """
        inner = nn.functional.normalize(self.in_proj(rest)[0].T)
        entries = nn.functional.normalize(self.codebook.weight)
        codes = torch.cdist(inner[None], entries[None])[0].argmin(-1)
        return codes, rest - self.out_proj(self.codebook(codes).T[None])


def wave_encoder(width: int, rates: Sequence[int], latent: int) -> nn.Sequential:
    """[1, 1, samples] -> [1, latent, frames]; width: channels, which every rate doubles."""
    first, layers = wide(1, width), list[nn.Module]()
    for rate in rates:
        slower = nn.Conv1d(width, 2 * width, 2 * rate, rate, padding=(rate + 1) // 2)
        layers.append(nn.Sequential(*units(width), Snake(width), slower))
        width *= 2
    return nn.Sequential(first, *layers, Snake(width), nn.Conv1d(width, latent, 3, padding=1))


class DacEncoder(nn.Module):
    """Waveforms at the codec's rate to frames of codes."""

    def __init__(self, c: DacSizes) -> None:
        super().__init__()
        self.sizes = c
        self.model = wave_encoder(c.encoder_hidden_size, c.downsampling_ratios, c.latent)
        self.levels = nn.ModuleList(EncoderLevel(c) for _ in range(c.n_codebooks))

    def forward(self, wav: Tensor) -> Tensor:
        """[samples] float32 in -1..1 -> [frames, codebooks] int64; silence fills the last one."""
        missing = -len(wav) % self.sizes.frame_samples
        rest, found = self.model(nn.functional.pad(wav, (0, missing))[None, None]), []
        for level in self.levels:
            codes, rest = level(rest)
            found.append(codes)
        return torch.stack(found, -1)


def encoder_sources(net: DacEncoder) -> dict[str, Source]:
    """Every parameter's published tensors."""
    found = wave_sources(net.model, "model.", "encoder.")
    return found | named(net, {"levels.*": "quantizer.quantizers.*"})


def wave_sources(net: nn.Sequential, ours: str, theirs: str) -> dict[str, Source]:
    """A `wave_encoder` by transformers' names; what both begin with, dot included."""
    last = len(net) - 1
    ends = {"0": "conv1", f"{last - 1}": "snake1", f"{last}": "conv2"}
    return named(net, ends | _BLOCK, ours, theirs)


# Of its blocks, each of which has three residual units.
_BLOCK: Final = {
    **{f"*.*.{mine}": f"block.*-1.res_unit*+1.{other}" for mine, other in UNIT.items()},
    "*.3": "block.*-1.snake1",
    "*.4": "block.*-1.conv1",
}


def load_encoder(folder: Path, device: str = "cpu") -> DacEncoder:
    """The encoder in a codec's folder; raises CheckpointError."""
    with torch.device("meta"):
        net = DacEncoder(load_sizes(folder))
    stated, shards = encoder_sources(net), Shards.of(folder)
    return filled(net, stated, shards, others=(DECODES,), device=device)
