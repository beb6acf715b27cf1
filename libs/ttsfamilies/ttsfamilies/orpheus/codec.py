"""SNAC (Siuzdak et al., 2024): three levels of codes at 1, 2 and 4 times the frame rate.

In the engine its windows are exact, with noise that is a function of the seed.

No layer is causal: a frame has a part in samples before its start (`surrounding_samples`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.checkpoint import CheckpointError, read_json
from ttscommon.engine.nn.weights import Shards, as_stored, filled, unfilled
from ttscommon.wire.fields import Field
from ttsfamilies.base.codec.dac import Level, Snake, units, upsampling, wide, widths
from ttsfamilies.base.codec.options import ON_CPU, CodecOptions
from ttsfamilies.base.codec.windowed import (
    Noise,
    WindowedCodec,
    WindowStream,
    keyed,
    surrounding_samples,
    windowed_spec,
)

# Codes of a frame by level, as Orpheus orders them.
SLOTS: Final = ((0,), (1, 4), (2, 3, 5, 6))


@dataclass(frozen=True)
class SnacConfig:
    """config.json, as far as the decoder goes."""

    sampling_rate: int
    encoder_dim: int
    encoder_rates: tuple[int, ...]
    decoder_dim: int
    decoder_rates: tuple[int, ...]
    codebook_size: int
    codebook_dim: int
    vq_strides: tuple[int, ...]
    attn_window_size: int | None = None
    latent_dim: int | None = None
    noise: bool = True
    depthwise: bool = True

    @property
    def latent(self) -> int:
        return self.latent_dim or self.encoder_dim * 2 ** len(self.encoder_rates)

    @property
    def frame_samples(self) -> int:
        return self.vq_strides[0] * prod(self.decoder_rates)


def load_config(folder: Path) -> SnacConfig:
    """Read and check a codec's config.json; raises CheckpointError."""
    path = folder / "config.json"
    config = read_json(path, SnacConfig)
    if config.vq_strides != (4, 2, 1) or not config.depthwise:
        raise CheckpointError(f"{path}: only three levels at 1, 2 and 4 times the frame rate")
    if config.attn_window_size is not None or any(rate % 2 for rate in config.decoder_rates):
        raise CheckpointError(f"{path}: attention and odd strides are not served")
    return config


class NoiseBlock(nn.Module):
    """Noise, one number a step, in the colours of what it is added to."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.linear = nn.Conv1d(channels, channels, 1, bias=False)

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        """[batch, channels, steps] and [steps] -> the same as the first."""
        found: Tensor = self.linear(x)
        return x + noise * found


class SnacBlock(nn.Module):
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
            SnacBlock(sizes[i], sizes[i + 1], rate, noise=c.noise)
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
            if isinstance(layer, SnacBlock):
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


# Of the encoder, which is not read.
_OTHERS: Final = ("encoder.", *(f"quantizer.quantizers.{i}.in_proj." for i in range(len(SLOTS))))


def load_decoder(folder: Path, device: str = "cpu") -> SnacDecoder:
    """The decoder in a codec's folder, in float32; raises CheckpointError."""
    net, shards = unfilled(SnacDecoder, load_config(folder)), Shards.of(folder)
    stated = as_stored(net.state_dict(), shards.shapes)
    return filled(net, stated, shards, others=_OTHERS, device=device)


def load(name: str, folder: Path, how: CodecOptions = ON_CPU) -> Snac:
    """A codec's folder; raises CheckpointError."""
    return Snac(name, load_decoder(folder, how.where))


class Snac(WindowedCodec):
    """See WindowedCodec."""

    def __init__(self, name: str, net: SnacDecoder) -> None:
        c = net.config
        codes = Field((sum(map(len, SLOTS)),), "i2", c.codebook_size)
        rates = c.sampling_rate, c.frame_samples, surrounding_samples(c.decoder_rates)
        super().__init__(net, windowed_spec(name, "snac", *rates, codes))

    def sound(self, codes: Tensor, stream: WindowStream, first: int) -> Tensor:
        device = next(self._net.parameters()).device
        return self._net(codes.to(device), self.noise(stream.seed), first)

    def noise(self, seed: int) -> Noise:
        """Of a stream."""
        return keyed(seed)
