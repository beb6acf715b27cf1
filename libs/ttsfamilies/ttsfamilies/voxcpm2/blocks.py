"""VoxCPM2's VAE: what both of its halves are made of, and the half that hears. Always float32."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from torch import Tensor, nn

from ttscommon.engine.checkpoint import VAE, CheckpointError
from ttscommon.engine.nn.causal import CausalConv1d, CausalUpsample1d
from ttscommon.engine.nn.weights import PAIRS, Shards, Source, filled, folded, named, unfilled
from ttsfamilies.base.codec.dac import DILATIONS, KERNEL, Snake, causal_units
from ttsfamilies.voxcpm2.facts import VaeSizes

HEARS, SOUNDS = "encoder.", "decoder."
_MEAN_TAPS: Final = 3


class Narrowing(nn.Module):
    """Residual units, and a convolution that takes `rate` steps as one and doubles the width."""

    def __init__(self, channels: int, rate: int) -> None:
        super().__init__()
        self.units, self.rate = causal_units(channels, Snake, depthwise=True), rate
        self.before = Snake(channels)
        self.down = nn.Conv1d(channels, 2 * channels, 2 * rate, rate)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, channels, steps] -> [batch, 2 * channels, steps / rate]."""
        for unit in self.units:
            x = unit(x, _whole)
        return self.down(nn.functional.pad(self.before(x), (self.rate, 0)))


def _whole(conv: CausalConv1d | CausalUpsample1d, x: Tensor) -> Tensor:
    """All of a sound at once."""
    return conv(x)


class VaeEncoder(nn.Module):
    """A recording to latents: the means, of which the reference draws nothing."""

    def __init__(self, c: VaeSizes) -> None:
        super().__init__()
        self.sizes = c
        self.first = CausalConv1d(1, c.encoder_dim, KERNEL)
        self.blocks = nn.ModuleList(
            Narrowing(c.encoder_dim << i, rate) for i, rate in enumerate(c.encoder_rates)
        )
        width = c.encoder_dim << len(c.encoder_rates)
        self.mean = CausalConv1d(width, c.latent_dim, _MEAN_TAPS)

    def forward(self, samples: Tensor) -> Tensor:
        """[samples] of whole latents, float32 in -1..1 -> [latents, latent_dim]."""
        x = self.first(samples[None, None])
        for block in self.blocks:
            x = block(x)
        return self.mean(x)[0].T


# Of a residual unit, by its names here.
UNIT: Final = {"snake1": "block.0", "wide": "block.1", "snake2": "block.2", "point": "block.3"}
_NAMES: Final = {
    "first": "block.0",
    "blocks.*.before": f"block.*+1.block.{len(DILATIONS)}",
    "blocks.*.down": f"block.*+1.block.{len(DILATIONS) + 1}",
    **{f"blocks.*.units.*.{ours}": f"block.*+1.block.*.{theirs}" for ours, theirs in UNIT.items()},
    "mean": "fc_mu",
}


def encoder_sources(net: VaeEncoder) -> dict[str, Source]:
    """Every parameter's published tensors."""
    return folded(named(net, _NAMES, theirs=HEARS), PAIRS[1])


def vae_shards(folder: Path) -> Shards:
    """The VAE's tensors, in a file of their own; raises CheckpointError."""
    if not (folder / VAE).exists():
        raise CheckpointError(
            f"{folder} has no {VAE}: `antiphon convert {folder}` makes it of the published pickle"
        )
    return Shards([folder / VAE])


def load_encoder(folder: Path, sizes: VaeSizes, device: str) -> VaeEncoder:
    """The half that hears, of a checkpoint's folder; raises CheckpointError."""
    net, others = unfilled(VaeEncoder, sizes), (SOUNDS, f"{HEARS}fc_logvar")
    return filled(net, encoder_sources(net), vae_shards(folder), others=others, device=device)
