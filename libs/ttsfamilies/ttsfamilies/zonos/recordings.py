"""Voices of Zonos: vectors that a checkpoint's folder brings, and what recordings are turned into.

Both encoders are published apart from the talker and lie in folders of its own.

A ResNet of 293 layers (SimAM: Yang et al., 2021) over log mel bands, mean and deviation over time
under weights that attention gives, and a projection (LDA) of its own file. Always float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import count
from math import prod
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from ttscommon.engine.checkpoint import VOICES, CheckpointError
from ttscommon.engine.nn.weights import Shards, Tensors, digest, filled, same, unfilled
from ttscommon.sound.recordings import read_recording
from ttscommon.wire.errors import BadRequest
from ttscommon.wire.fields import Array, Arrays
from ttsfamilies.base.codec.dac_encoder import DacEncoder, load_encoder
from ttsfamilies.base.lm.recordings import windowed_sinc
from ttsfamilies.base.s3.speaker import FixedNorm
from ttsfamilies.zonos.facts import CODEBOOKS, SAMPLE_RATE, SPEAKER

RATE_HZ: Final = 16_000
BANDS: Final = 80
_FRAME, _HOP, _FFT = 400, 160, 512
_QUIETEST, _LAMBDA, _FLOOR = 1e-6, 1e-4, 1e-5
_LAYERS: Final = 4
# Counters of training, which compute nothing.
_COUNTED: Final = "num_batches_tracked"


def mel_filters() -> Tensor:
    """Triangles of equal height, as HTK has them, [bins, BANDS]."""
    edges = 700.0 * (10 ** (np.linspace(0, _mel(RATE_HZ / 2), BANDS + 2) / 2595.0) - 1)
    bins = np.linspace(0, RATE_HZ / 2, _FFT // 2 + 1)[:, None]
    rise = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    fall = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    return torch.from_numpy(np.maximum(0.0, np.minimum(rise, fall))).float()


def _mel(hz: float) -> float:
    return float(2595.0 * np.log10(1.0 + hz / 700.0))


class MelBands(nn.Module):
    """Log mel bands, less what each is on average over the clip."""

    filters: Tensor
    window: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("filters", mel_filters(), persistent=False)
        self.register_buffer("window", torch.hann_window(_FRAME), persistent=False)

    def forward(self, wav: Tensor) -> Tensor:
        """[samples] float32 in -1..1 -> [BANDS, frames]."""
        spectrum = torch.stft(
            *(wav, _FFT, _HOP, _FRAME, self.window),
            center=True, pad_mode="reflect", return_complex=True,
        )  # fmt: skip
        bands = (self.filters.T @ spectrum.abs().square() + _QUIETEST).log()
        return bands - bands.mean(1, keepdim=True)


class AttentiveBlock(nn.Module):
    """Two convolutions around a residual; how far a value is from its plane's mean weights it."""

    def __init__(self, inputs: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, planes, 3, stride, 1, bias=False)
        self.bn1 = FixedNorm(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = FixedNorm(planes)
        self.downsample = nn.Sequential()
        if stride != 1 or inputs != planes:
            short = nn.Conv2d(inputs, planes, 1, stride, bias=False)
            self.downsample = nn.Sequential(short, FixedNorm(planes))

    def forward(self, x: Tensor) -> Tensor:
        """[1, inputs, bands, frames] -> [1, planes, bands / stride, frames / stride]."""
        found: Tensor = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        away = (found - found.mean((2, 3), keepdim=True)).square()
        spread = away.sum((2, 3), keepdim=True) / (found.shape[2] * found.shape[3] - 1)
        found = found * (away / (4 * (spread + _LAMBDA)) + 0.5).sigmoid()
        return (found + self.downsample(x)).relu()


class ResNet(nn.Module):
    def __init__(self, planes: int, blocks: tuple[int, ...]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, planes, 3, 1, 1, bias=False)
        self.bn1 = FixedNorm(planes)
        inputs = planes
        for layer, number in enumerate(blocks):
            made = []
            for block in range(number):
                stride = 2 if layer and not block else 1
                made.append(AttentiveBlock(inputs, planes << layer, stride))
                inputs = planes << layer
            setattr(self, f"layer{layer + 1}", nn.Sequential(*made))

    def forward(self, x: Tensor) -> Tensor:
        x = self.bn1(self.conv1(x)).relu()
        for layer in range(_LAYERS):
            x = getattr(self, f"layer{layer + 1}")(x)
        return x


class SpeakerNet(nn.Module):
    """Modules have the names of the published tensors."""

    def __init__(self, planes: int, blocks: tuple[int, ...], inner: int, outer: int) -> None:
        """inner: channels of the attention over time. outer: numbers before the projection."""
        super().__init__()
        width = (planes << _LAYERS - 1) * (BANDS >> _LAYERS - 1)
        self.bands = MelBands()
        self.front = ResNet(planes, blocks)
        self.pooling = nn.Module()
        self.pooling.attention = nn.Sequential(
            *(nn.Conv1d(width, inner, 1), nn.ReLU(), FixedNorm(inner)),
            *(nn.Conv1d(inner, width, 1), nn.Softmax(2)),
        )
        self.bottleneck = nn.Linear(2 * width, outer)

    def forward(self, wav: Tensor) -> Tensor:
        """[samples] float32 in -1..1 at RATE_HZ -> [outer]."""
        x = self.front(self.bands(wav)[None, None]).flatten(1, 2)
        attention = self.pooling.attention
        assert isinstance(attention, nn.Sequential)
        weights = attention(x)
        mean = (x * weights).sum(2)
        spread = ((x.square() * weights).sum(2) - mean.square()).clamp(min=_FLOOR).sqrt()
        return self.bottleneck(torch.cat((mean, spread), 1))[0]


class ProjectedSpeakerEncoder(nn.Module):
    """The network, and the projection behind it."""

    def __init__(self, net: SpeakerNet, lda: nn.Linear) -> None:
        super().__init__()
        self.net, self.lda = net, lda

    def forward(self, wav: Tensor) -> Tensor:
        """[samples] float32 in -1..1 at RATE_HZ -> [SPEAKER]."""
        return self.lda(self.net(wav))


def load_speaker(folder: Path) -> ProjectedSpeakerEncoder | None:
    """Of a checkpoint's folders `speaker` and `lda`; None without them. Raises CheckpointError."""
    if not (folder / "speaker").is_dir():
        return None
    published, projection = Shards.of(folder / "speaker"), Shards.of(folder / "lda")
    try:
        net = unfilled(_sized, published)
        lda = unfilled(nn.Linear, net.bottleneck.out_features, SPEAKER)
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"{folder / 'speaker'} is no speaker encoder: {error}") from error
    unused = tuple(name for name in published.shapes if name.endswith(_COUNTED))
    _fill(net, published, unused)
    _fill(lda, projection, ())
    net.bands = MelBands()  # computed, not read
    return ProjectedSpeakerEncoder(net, lda).eval().requires_grad_(False)


def _fill(net: nn.Module, published: Tensors, unused: tuple[str, ...]) -> None:
    stated = {name: same(name) for name in net.state_dict()}
    filled(net, stated, published, others=unused)


def _sized(published: Tensors) -> SpeakerNet:
    """Raises KeyError or ValueError."""
    shapes = published.shapes
    blocks = tuple(
        next(i for i in count() if f"front.layer{layer + 1}.{i}.conv1.weight" not in shapes)
        for layer in range(_LAYERS)
    )
    if not min(blocks):
        raise ValueError(f"its layers have {blocks} blocks")
    planes, inner = shapes["front.conv1.weight"][0], shapes["pooling.attention.0.weight"][0]
    return SpeakerNet(planes, blocks, inner, shapes["bottleneck.weight"][0])


CODEC: Final = "dac"


class ZonosRecordings:
    """speaker: None where no voice can be made. codec: None where speech cannot go on from one."""

    def __init__(self, speaker: ProjectedSpeakerEncoder | None, codec: DacEncoder | None) -> None:
        self.speaker, self.codec = speaker, codec

    @classmethod
    def load(cls, folder: Path) -> ZonosRecordings:
        """Of a checkpoint's folder; raises CheckpointError."""
        place = folder / CODEC
        codec = load_encoder(place) if place.is_dir() else None
        if codec and (codec.sizes.n_codebooks, codec.sizes.sampling_rate) != (
            CODEBOOKS,
            SAMPLE_RATE,
        ):
            raise CheckpointError(f"{place} is another codec than the one that Zonos speaks to")
        return cls(load_speaker(folder), codec)

    @property
    def accepts(self) -> tuple[str, ...]:
        """Fields of a request that it stands for."""
        if self.speaker is None:
            return ()
        return ("ref_audio", *(("ref_text", "x_vector_only_mode") if self.codec else ()))

    @cached_property
    def revision(self) -> str:
        """Names the weights."""
        return digest(net for net in (self.speaker, self.codec) if net)[:32]

    @torch.inference_mode()
    def derive(self, recording: bytes) -> Arrays:
        """See Family.derive."""
        if self.speaker is None:
            raise BadRequest("this model cannot clone a voice", param="ref_audio")
        samples, rate = read_recording(recording)
        heard = torch.from_numpy(windowed_sinc(samples, rate, RATE_HZ))
        found: dict[str, Array] = {"speaker": self.speaker(heard)[None].numpy()}
        if self.codec is not None:
            whole = torch.from_numpy(windowed_sinc(samples, rate, SAMPLE_RATE))
            found["codes"] = self.codec(whole).numpy().astype(np.int16)
        return found


def load_voices(folder: Path) -> Mapping[str, Array]:
    """Speakers' vectors [SPEAKER] float32 by name, as saved from the reference; none without the
    file. Raises CheckpointError.
    """
    path = folder / VOICES
    if not path.exists():
        return {}
    shards = Shards((path,))
    for name, shape in shards.shapes.items():
        if prod(shape) != SPEAKER:
            raise CheckpointError(f"{path}: {name} is no speaker's vector of {SPEAKER} numbers")
    return {name: shards.read(name).reshape(-1).float().numpy() for name in sorted(shards.shapes)}
