"""SNAC in the engine: windows that are exact, with noise that is a function of the seed.

No layer is causal: a frame has a part in samples before its start (`snake.reach`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.checkpoint import CheckpointError, read_json
from ttscommon.engine.nn.snake import Snake, units, wide
from ttscommon.engine.nn.weights import Shards, unfilled
from ttscommon.wire.fields import Field
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.dac import Level, upsampling, widths
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


# Length and direction: of torch's parametrisation, and of the one before it.
_PAIRS: Final = (
    ("parametrizations.weight.original0", "parametrizations.weight.original1"),
    ("weight_g", "weight_v"),
)


def load_decoder(folder: Path, device: str = "cpu") -> SnacDecoder:
    """The decoder in a codec's folder, in float32; raises CheckpointError."""
    net = unfilled(SnacDecoder, load_config(folder))
    shards = Shards.of(folder)
    state = {name: _folded(name, tensor.shape, shards) for name, tensor in net.state_dict().items()}
    net.load_state_dict(state, assign=True)
    return net.to(device).eval().requires_grad_(False)


def _folded(name: str, shape: torch.Size, shards: Shards) -> Tensor:
    found = _read(name, shards)
    if found.shape != shape:
        raise CheckpointError(
            f"{shards.where(name)}: {name} is {list(found.shape)}, but config.json makes it"
            f" {list(shape)}"
        )
    return found


def _read(name: str, shards: Shards) -> Tensor:
    if name in shards.shapes:
        return shards.read(name).float()
    stem = name.removesuffix("weight")
    for length, direction in _PAIRS:
        if stem + length in shards.shapes and stem + direction in shards.shapes:
            v = shards.read(stem + direction).float()
            size = torch.linalg.vector_norm(v, dim=(1, 2), keepdim=True)
            folded: Tensor = shards.read(stem + length).float() * v / size
            return folded
    raise CheckpointError(f"{shards.where('').parent} lacks {name}: it is no codec of SNAC")


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
