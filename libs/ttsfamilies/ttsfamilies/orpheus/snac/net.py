"""The decoder of SNAC: codes to samples. Names of modules are those of published checkpoints.

No layer is causal: a frame has a part in samples before its start (`snake.reach`).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ttscommon.engine.nn.snake import Snake, units, wide
from ttsfamilies.base.codec.noise import Noise
from ttsfamilies.base.codec.snake import Level, upsampling, widths
from ttsfamilies.orpheus.snac.config import SLOTS, SnacConfig


class NoiseBlock(nn.Module):
    """Noise, one number a step, in the colours of what it is added to."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.linear = nn.Conv1d(channels, channels, 1, bias=False)

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        """[batch, channels, steps] and [steps] -> the same as the first."""
        found: Tensor = self.linear(x)
        return x + noise * found


class DecoderBlock(nn.Module):
    """A stretch by `rate`, noise, and three residual units."""

    def __init__(self, inputs: int, outputs: int, rate: int, *, noise: bool) -> None:
        super().__init__()
        layers: list[nn.Module] = [Snake(inputs), upsampling(inputs, outputs, rate)]
        layers += [NoiseBlock(outputs)] if noise else []
        self.block = nn.Sequential(*layers, *units(outputs, depthwise=True))

    def forward(self, x: Tensor, noise: Noise, place: int, start: int) -> Tensor:
        """[batch, inputs, steps] -> [batch, outputs, steps * rate]; start: the first of those."""
        for layer in self.block:
            if isinstance(layer, NoiseBlock):
                x = layer(x, noise(place, start, x.shape[2], x.device))
            else:
                x = layer(x)
        return x


class SnacDecoder(nn.Module):
    """Frames of one stream to its samples."""

    def __init__(self, config: SnacConfig) -> None:
        super().__init__()
        c = self.config = config
        self.quantizer = nn.Module()
        self.quantizer.quantizers = nn.ModuleList(
            Level(c.codebook_size, c.codebook_dim, c.latent) for _ in c.vq_strides
        )
        sizes = widths(c.decoder_dim, c.decoder_rates)
        blocks = [
            DecoderBlock(sizes[i], sizes[i + 1], rate, noise=c.noise)
            for i, rate in enumerate(c.decoder_rates)
        ]
        first, last = wide(c.latent, c.latent, depthwise=True), wide(sizes[-1], 1)
        widen = nn.Conv1d(c.latent, c.decoder_dim, 1)
        self.decoder = nn.Module()
        self.decoder.model = nn.Sequential(first, widen, *blocks, Snake(sizes[-1]), last, nn.Tanh())

    def forward(self, codes: Tensor, noise: Noise, first: int = 0) -> Tensor:
        """Codes [frames, 7] int64 from frame `first` on -> [frames * frame_samples].

        Silence surrounds the frames: samples near a cut are not those of the whole stream.
        """
        x, place = self._latent(codes), 0
        start = first * self.config.vq_strides[0]
        model = self.decoder.model
        assert isinstance(model, nn.Sequential)
        for layer in model:
            if isinstance(layer, DecoderBlock):
                start *= self.config.decoder_rates[place]
                x = layer(x, noise, place, start)
                place += 1
            else:
                x = layer(x)
        return x[0, 0]

    def _latent(self, codes: Tensor) -> Tensor:
        """[frames, 7] -> [1, latent, 4 * frames]."""
        levels = self.quantizer.quantizers
        assert isinstance(levels, nn.ModuleList)
        total = torch.zeros((), device=codes.device)
        for level, slots, stride in zip(levels, SLOTS, self.config.vq_strides, strict=True):
            total = total + level(codes[:, list(slots)].reshape(1, -1)).repeat_interleave(
                stride, -1
            )
        return total
