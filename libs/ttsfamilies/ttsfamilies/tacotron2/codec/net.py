"""The postnet of Tacotron 2, and HiFi-GAN's generator behind it."""

from __future__ import annotations

from collections.abc import Container
from itertools import pairwise
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.nn.flat import flat
from ttscommon.engine.nn.weights import Source, filled, same
from ttsfamilies.base.codec.hifigan import Block, Generator, Sizes, Stage
from ttsfamilies.base.codec.streaming_convolutions import StreamContext, convolved, reach_of
from ttsfamilies.tacotron2.blocks import counted, normed_sources, sizes_of
from ttsfamilies.tacotron2.sizes import HifiganConfig, TacotronSizes

_TALKED: Final = ("embedding.", "encoder.", "decoder.")
_PAIRED: Final = "1"


class MelVocoder(nn.Module):
    """Mel frames as the talker makes them to samples, piece by piece; see StreamContext."""

    def __init__(self, config: HifiganConfig, sizes: TacotronSizes) -> None:
        super().__init__()
        count, self._kernel, widest = sizes.restoring
        widths = [sizes.mels, *[widest] * (count - 1), sizes.mels]
        self.postnet = nn.ModuleList(
            nn.Conv1d(inputs, outputs, self._kernel) for inputs, outputs in pairwise(widths)
        )
        self.generator = Generator(generator_sizes(config))
        self.hop, self.mels = config.hop_size, sizes.mels

    @property
    def restoring(self) -> int:
        """Frames on each side that the postnet reaches."""
        return len(self.postnet) * (self._kernel // 2)

    @property
    def lag(self) -> int:
        """Samples that wait for frames behind them."""
        return self.restoring * self.hop + self.generator.sizes.lag

    @property
    def context(self) -> int:
        """Frames before a frame that its samples depend on."""
        return self.restoring + self.generator.sizes.context

    def forward(self, mel: Tensor, context: StreamContext) -> Tensor:
        """[1, mels, frames] -> [samples] that are final by then."""
        found: Tensor = self.generator(self.restored(mel, context), None, context)
        return found

    def restored(self, mel: Tensor, context: StreamContext) -> Tensor:
        """What the generator is shown: [1, mels, frames], as many as are final by then."""
        whole = x = mel[:, :, None]
        last = len(self.postnet) - 1
        for index, conv in enumerate(self.postnet):
            assert isinstance(conv, nn.Conv2d)
            x = convolved(conv, context.around(x, reach_of(conv)))
            x = torch.tanh(x) if index < last else x
        whole, x = context.in_step((whole, x))
        return (whole + x)[:, :, 0]


def generator_sizes(config: HifiganConfig) -> Sizes:
    """What the generator's own config.json says."""
    pairs = zip(config.resblock_kernel_sizes, config.resblock_dilation_sizes, strict=True)
    blocks = tuple(Block(k, dilations, config.resblock == _PAIRED) for k, dilations in pairs)
    ups = zip(config.upsample_kernel_sizes, config.upsample_rates, strict=True)
    stages = tuple(Stage(kernel, rate, blocks) for kernel, rate in ups)
    return Sizes(config.num_mels, config.upsample_initial_channel, 0, stages, biased=True)


def sources(net: MelVocoder, names: Container[str]) -> dict[str, Source]:
    """Every parameter's published tensors; names: of those that are there, as weights may have
    their norm apart or not.
    """
    found = normed_sources(len(net.postnet), "postnet.", "postnet.convolutions.")
    for name in net.generator.state_dict():
        parts = (f"{name}_g", f"{name}_v")
        apart = parts[0] in names
        found[f"generator.{name}"] = Source(parts, folded=True) if apart else same(name)
    return found


def load_vocoder(folder: Path, device: str = "cpu") -> tuple[MelVocoder, HifiganConfig]:
    """Of a folder, in float32; raises CheckpointError."""
    config, sizes, shards = sizes_of(folder)
    with torch.device("meta"):
        net = MelVocoder(config, sizes)
    others = (*_TALKED, *counted(shards.shapes))
    filled(net, sources(net, shards.shapes), shards, others=others, device=device)
    flat(net)
    return net, config
