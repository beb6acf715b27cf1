"""The decoder of SNAC: codes to samples. Names of modules are those of published checkpoints.

No layer is causal: a frame has a part in samples before its start (`SnacConfig.reach`).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from vocoder.codecs.snac.config import DILATIONS, SLOTS, SnacConfig
from vocoder.codecs.snac.noise import Noise

_KERNEL = 7


class Snake(nn.Module):
    """x + sin^2(a x) / a, a learnt period a channel (Liu et al., 2020)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, channels, 1))

    def forward(self, x: Tensor) -> Tensor:
        """[batch, channels, steps] -> the same."""
        return x + (self.alpha + 1e-9).reciprocal() * torch.sin(self.alpha * x).pow(2)


def _depthwise(channels: int, dilation: int = 1) -> nn.Conv1d:
    around = (_KERNEL - 1) * dilation // 2
    return nn.Conv1d(
        channels, channels, _KERNEL, dilation=dilation, padding=around, groups=channels
    )


class ResidualUnit(nn.Module):
    """A dilated convolution within channels and one across them, around a residual."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        across = nn.Conv1d(channels, channels, 1)
        self.block = nn.Sequential(
            Snake(channels), _depthwise(channels, dilation), Snake(channels), across
        )

    def forward(self, x: Tensor) -> Tensor:
        """[batch, channels, steps] -> the same."""
        found: Tensor = self.block(x)
        return x + found


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
        up = nn.ConvTranspose1d(inputs, outputs, 2 * rate, stride=rate, padding=rate // 2)
        layers: list[nn.Module] = [Snake(inputs), up, *([NoiseBlock(outputs)] if noise else [])]
        self.block = nn.Sequential(*layers, *(ResidualUnit(outputs, d) for d in DILATIONS))

    def forward(self, x: Tensor, noise: Noise, place: int, start: int) -> Tensor:
        """[batch, inputs, steps] -> [batch, outputs, steps * rate]; start: the first of those."""
        for layer in self.block:
            if isinstance(layer, NoiseBlock):
                x = layer(x, noise(place, start, x.shape[2], x.device))
            else:
                x = layer(x)
        return x


class Level(nn.Module):
    """One level's codebook and its way to the decoder's channels."""

    def __init__(self, c: SnacConfig) -> None:
        super().__init__()
        self.codebook = nn.Embedding(c.codebook_size, c.codebook_dim)
        self.out_proj = nn.Conv1d(c.codebook_dim, c.latent, 1)


class SnacDecoder(nn.Module):
    """Frames of one stream to its samples."""

    def __init__(self, config: SnacConfig) -> None:
        super().__init__()
        c = self.config = config
        self.quantizer = nn.Module()
        self.quantizer.quantizers = nn.ModuleList(Level(c) for _ in c.vq_strides)
        widths = [c.decoder_dim // 2**i for i in range(len(c.decoder_rates) + 1)]
        blocks = [
            DecoderBlock(widths[i], widths[i + 1], rate, noise=c.noise)
            for i, rate in enumerate(c.decoder_rates)
        ]
        last = nn.Conv1d(widths[-1], 1, _KERNEL, padding=_KERNEL // 2)
        widen = nn.Conv1d(c.latent, c.decoder_dim, 1)
        self.decoder = nn.Module()
        self.decoder.model = nn.Sequential(
            _depthwise(c.latent), widen, *blocks, Snake(widths[-1]), last, nn.Tanh()
        )

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
            assert isinstance(level, Level)
            row = level.codebook(codes[:, list(slots)].reshape(1, -1)).transpose(1, 2)
            total = total + level.out_proj(row).repeat_interleave(stride, -1)
        return total
