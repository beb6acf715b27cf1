"""CAM++ (Wang et al., 2023): a recording at 16 kHz to a vector that stands for its voice.

A two-dimensional head, a time-delay network of dense blocks whose layers are gated by what the clip
and its segment of two seconds sound like, and mean and deviation over time. Always float32, and
one clip at a time: a gate hears padding too.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

BANDS: Final = 80
_RATE_HZ, _FRAME, _HOP, _FFT = 16_000, 400, 160, 512
_LOWEST_HZ, _EMPHASIS, _QUIETEST = 20.0, 0.97, 1.1920928955078125e-07
_SEGMENT: Final = 100
_KERNEL: Final = 3
# Of the three dense blocks.
_DILATIONS: Final = (1, 2, 2)


class SpeakerSizes(NamedTuple):
    """planes: of the head. first: channels behind it. layers: of each dense block. growth, inner:
    channels that a layer adds, and those that it works in. gate: channels of its gate.
    """

    planes: int = 32
    first: int = 128
    layers: tuple[int, ...] = (12, 24, 16)
    growth: int = 32
    inner: int = 128
    gate: int = 64
    vector: int = 192


def kaldi_filters() -> Tensor:
    """Triangles in Kaldi's mel, without area norm and without the highest bin, [bins, BANDS]."""
    low, high = (1127.0 * np.log1p(hz / 700.0) for hz in (_LOWEST_HZ, _RATE_HZ / 2))
    edges = low + (high - low) / (BANDS + 1) * np.arange(BANDS + 2)
    bins = 1127.0 * np.log1p(np.arange(_FFT // 2) * (_RATE_HZ / _FFT) / 700.0)
    rise = (bins[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
    fall = (edges[2:] - bins[:, None]) / (edges[2:] - edges[1:-1])
    found = np.maximum(0.0, np.minimum(rise, fall))
    return torch.from_numpy(np.pad(found, ((0, 1), (0, 0)))).float()


class KaldiBands(nn.Module):
    """Kaldi's log filter banks, less what each band is on average over the clip."""

    filters: Tensor
    window: Tensor

    def __init__(self) -> None:
        super().__init__()
        window = torch.hann_window(_FRAME, periodic=False) ** 0.85
        self.register_buffer("filters", kaldi_filters(), persistent=False)
        self.register_buffer("window", window, persistent=False)

    def forward(self, wav: Tensor) -> Tensor:
        """[samples] float32 in -1..1, a frame at the least -> [frames, BANDS]."""
        frames = wav.unfold(0, _FRAME, _HOP)
        frames = frames - frames.mean(1, keepdim=True)
        before = torch.cat((frames[:, :1], frames[:, :-1]), 1)
        power = torch.fft.rfft((frames - _EMPHASIS * before) * self.window, _FFT).abs().square()
        bands: Tensor = (power @ self.filters).clamp(min=_QUIETEST).log()
        return bands - bands.mean(0)


class FixedNorm(nn.Module):
    """Batch norm as it was when training ended, over [batch, channels, ...]."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int, *, affine: bool = True) -> None:
        super().__init__()
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.weight = nn.Parameter(torch.ones(channels)) if affine else None
        self.bias = nn.Parameter(torch.zeros(channels)) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        """[batch, channels, ...] -> the same."""
        return nn.functional.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias
        )


def _normed(channels: int, *, affine: bool = True) -> nn.Sequential:
    norm = nn.Sequential()
    norm.add_module("batchnorm", FixedNorm(channels, affine=affine))
    return norm


def _planes(inputs: int, outputs: int, stride: int, kernel: int = 3) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, (stride, 1), kernel // 2, bias=False)


class ResidualPlanes(nn.Module):
    """Two convolutions over bands and frames around a residual."""

    def __init__(self, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = _planes(planes, planes, stride), FixedNorm(planes)
        self.conv2, self.bn2 = _planes(planes, planes, 1), FixedNorm(planes)
        self.shortcut = nn.Sequential()
        if stride > 1:
            self.shortcut = nn.Sequential(_planes(planes, planes, stride, 1), FixedNorm(planes))

    def forward(self, x: Tensor) -> Tensor:
        """[1, planes, bands, frames] -> [1, planes, bands / stride, frames]."""
        inner: Tensor = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        beside: Tensor = self.shortcut(x)
        return (inner + beside).relu()


class PlanesHead(nn.Module):
    """Bands to an eighth as many, each with its planes."""

    def __init__(self, planes: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = _planes(1, planes, 1), FixedNorm(planes)
        self.layer1 = nn.Sequential(ResidualPlanes(planes, 2), ResidualPlanes(planes, 1))
        self.layer2 = nn.Sequential(ResidualPlanes(planes, 2), ResidualPlanes(planes, 1))
        self.conv2, self.bn2 = _planes(planes, planes, 2), FixedNorm(planes)

    def forward(self, bands: Tensor) -> Tensor:
        """[BANDS, frames] -> [1, planes * BANDS / 8, frames]."""
        x = self.bn1(self.conv1(bands[None, None])).relu()
        x = self.bn2(self.conv2(self.layer2(self.layer1(x)))).relu()
        return x.flatten(1, 2)


class GatedLayer(nn.Module):
    """A convolution, gated by the mean of the clip and of the segment."""

    def __init__(self, c: SpeakerSizes, dilation: int) -> None:
        super().__init__()
        self.linear_local = nn.Conv1d(
            c.inner, c.growth, _KERNEL, padding=dilation, dilation=dilation, bias=False
        )
        self.linear1 = nn.Conv1d(c.inner, c.gate, 1)
        self.linear2 = nn.Conv1d(c.gate, c.growth, 1)

    def forward(self, x: Tensor) -> Tensor:
        """[1, inner, frames] -> [1, growth, frames]."""
        segments = nn.functional.avg_pool1d(x, _SEGMENT, _SEGMENT, ceil_mode=True)
        around = segments.repeat_interleave(_SEGMENT, -1)[..., : x.shape[-1]]
        gate: Tensor = self.linear2(self.linear1(x.mean(-1, keepdim=True) + around).relu())
        heard: Tensor = self.linear_local(x)
        return heard * gate.sigmoid()


class DenseLayer(nn.Module):
    """What a layer adds to the channels it is given."""

    def __init__(self, c: SpeakerSizes, inputs: int, dilation: int) -> None:
        super().__init__()
        self.nonlinear1, self.nonlinear2 = _normed(inputs), _normed(c.inner)
        self.linear1 = nn.Conv1d(inputs, c.inner, 1, bias=False)
        self.cam_layer = GatedLayer(c, dilation)

    def forward(self, x: Tensor) -> Tensor:
        """[1, inputs, frames] -> [1, inputs + growth, frames]."""
        inner = self.linear1(self.nonlinear1(x).relu())
        return torch.cat((x, self.cam_layer(self.nonlinear2(inner).relu())), 1)


class Projected(nn.Module):
    """A convolution and a norm, whichever comes first; [1, channels, frames] each."""

    def __init__(self, conv: nn.Conv1d, norm: nn.Sequential) -> None:
        super().__init__()
        self.linear, self.nonlinear = conv, norm

    def normed_first(self, x: Tensor) -> Tensor:
        """With a rectifier between them."""
        return self.linear(self.nonlinear(x).relu())

    def normed_last(self, x: Tensor) -> Tensor:
        """The norm of the convolution."""
        return self.nonlinear(self.linear(x))


class SpeakerVector(nn.Module):
    """A recording at 16 kHz to its voice, not normalised."""

    def __init__(self, c: SpeakerSizes) -> None:
        super().__init__()
        self.bands = KaldiBands()
        self.head = PlanesHead(c.planes)
        parts: dict[str, nn.Module] = {}
        conv = nn.Conv1d(c.planes * BANDS // 8, c.first, 5, 2, 2, bias=False)
        parts["tdnn"] = Projected(conv, _normed(c.first))
        width = c.first
        for i, layers in enumerate(c.layers):
            parts[f"block{i + 1}"] = _block(c, width, layers, _DILATIONS[i])
            width += layers * c.growth
            conv = nn.Conv1d(width, width // 2, 1, bias=False)
            parts[f"transit{i + 1}"] = Projected(conv, _normed(width))
            width //= 2
        parts["out_nonlinear"] = _normed(width)
        conv = nn.Conv1d(2 * width, c.vector, 1, bias=False)
        parts["dense"] = Projected(conv, _normed(c.vector, affine=False))
        self.xvector = nn.ModuleDict(parts)

    def forward(self, wav: Tensor) -> Tensor:
        """[samples] float32 in -1..1 -> [192]."""
        x = self._projected("tdnn").normed_last(self.head(self.bands(wav).T)).relu()
        for i in range(1, len(_DILATIONS) + 1):
            for layer in self.xvector[f"block{i}"].children():
                x = layer(x)
            x = self._projected(f"transit{i}").normed_first(x)
        x = self.xvector["out_nonlinear"](x).relu()
        whole = torch.cat((x.mean(-1), x.std(-1)), -1)[..., None]
        return self._projected("dense").normed_last(whole)[0, :, 0]

    def _projected(self, name: str) -> Projected:
        found = self.xvector[name]
        assert isinstance(found, Projected)
        return found


def _block(c: SpeakerSizes, width: int, layers: int, dilation: int) -> nn.Module:
    block = nn.Module()
    for i in range(layers):
        block.add_module(f"tdnnd{i + 1}", DenseLayer(c, width + i * c.growth, dilation))
    return block
