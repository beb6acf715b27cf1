"""HiFi-GAN's generator (Kong et al., 2020), with the sizes that a voice's file has.

Modules have the names of the published tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from ttscommon.engine.hub import CheckpointError
from ttscommon.engine.nn.flat import flat
from ttscommon.engine.nn.weights import fill, same
from ttscommon.engine.piper import HOP, PiperVoice
from vocoder.codecs.margins import Margins, convolved, reach_of

_SLOPE: Final = 0.1
_LAST_SLOPE: Final = 0.01
_OTHERS: Final = ("enc_p.", "dp.", "flow.")
_PRE = _POST = 7


@dataclass(frozen=True)
class Block:
    """A residual block: its kernel, and the dilations of its convolutions.

    paired: a plain convolution follows each dilated one.
    """

    kernel: int
    dilations: tuple[int, ...]
    paired: bool

    @property
    def reach(self) -> int:
        """Steps on each side that an output depends on."""
        half = self.kernel // 2
        return sum(half * d + half * self.paired for d in self.dilations)


@dataclass(frozen=True)
class Stage:
    """Steps in, times `rate`; then blocks side by side."""

    kernel: int
    rate: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Sizes:
    latent: int
    channels: int
    speaker: int
    stages: tuple[Stage, ...]

    @property
    def lag(self) -> int:
        """Samples that wait for frames behind them."""
        lag = _PRE // 2
        for stage in self.stages:
            reach = max(block.reach for block in stage.blocks)
            lag = lag * stage.rate + (stage.kernel - stage.rate) // 2 + reach
        return lag + _POST // 2

    @property
    def context(self) -> int:
        """Frames before a frame that its samples depend on."""
        low = -(_POST // 2)
        for stage in reversed(self.stages):
            reach = max(block.reach for block in stage.blocks)
            around = (stage.kernel - stage.rate) // 2
            low = -((stage.kernel - 1 - around - (low - reach)) // stage.rate)
        return _PRE // 2 - low


class Residual(nn.Module):
    def __init__(self, channels: int, block: Block) -> None:
        super().__init__()

        def convolutions(dilations: tuple[int, ...]) -> nn.ModuleList:
            return nn.ModuleList(
                nn.Conv1d(channels, channels, block.kernel, dilation=d) for d in dilations
            )

        if block.paired:
            self.convs1 = convolutions(block.dilations)
            self.convs2 = convolutions((1,) * len(block.dilations))
        else:
            self.convs = convolutions(block.dilations)
        self._paired = block.paired

    def forward(self, x: Tensor, margins: Margins) -> Tensor:
        if not self._paired:
            for conv in self.convs:
                x = _added(x, (conv,), margins)
            return x
        for pair in zip(self.convs1, self.convs2, strict=True):
            x = _added(x, pair, margins)
        return x


def _added(x: Tensor, convs: Sequence[nn.Module], margins: Margins) -> Tensor:
    """What convolutions make of x, and x."""
    found = x
    for conv in convs:
        assert isinstance(conv, nn.Conv2d)
        found = convolved(conv, leaky_relu(margins.around(found, reach_of(conv)), _SLOPE))
    x, found = margins.in_step((x, found))
    return found.add_(x)


class Generator(nn.Module):
    """Latents [1, latent, frames] to samples in -1 .. 1, piece by piece; see Margins."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes, channels = sizes, sizes.channels
        self.conv_pre = nn.Conv1d(sizes.latent, channels, _PRE)
        self.cond = nn.Conv1d(sizes.speaker, channels, 1) if sizes.speaker else None
        self.ups, self.resblocks = nn.ModuleList(), nn.ModuleList()
        for stage in sizes.stages:
            self.ups.append(nn.ConvTranspose1d(channels, channels // 2, stage.kernel, stage.rate))
            channels //= 2
            self.resblocks.extend(Residual(channels, block) for block in stage.blocks)
        self.conv_post = nn.Conv1d(channels, 1, _POST, bias=False)

    def forward(self, z: Tensor, told: Tensor | None, margins: Margins) -> Tensor:
        """told: [1, channels, 1], what `cond` makes of a speaker. [samples]."""
        x = _first(self.conv_pre, z[:, :, None], margins)
        if told is not None:
            x = x + told[..., None]
        count = len(self.resblocks) // len(self.ups)
        for index, up in enumerate(self.ups):
            assert isinstance(up, nn.ConvTranspose2d)
            x = margins.upsampled(up, leaky_relu(x, _SLOPE))
            blocks = self.resblocks[index * count : (index + 1) * count]
            first, *others = margins.in_step([block(x, margins) for block in blocks])
            x = sum(others, first) / count
        return torch.tanh(_first(self.conv_post, leaky_relu(x, _LAST_SLOPE), margins))[0, 0, 0]


def _first(conv: nn.Module, x: Tensor, margins: Margins) -> Tensor:
    assert isinstance(conv, nn.Conv2d)
    return convolved(conv, margins.around(x, reach_of(conv)))


def load_generator(voice: PiperVoice, device: str) -> tuple[Generator, Tensor | None]:
    """The generator, and what it is told of each speaker, [speakers, channels, 1].

    Raises CheckpointError.
    """
    try:
        with torch.device("meta"):
            whole = nn.ModuleDict({"dec": Generator(sizes_of(voice))})
    except (KeyError, ValueError, IndexError, RuntimeError, ZeroDivisionError) as error:
        raise CheckpointError(
            f"{voice.where('')} has no generator that is known here: {error}"
        ) from error
    whole = whole.to_empty(device=device)
    fill(whole, {n: same(n) for n in whole.state_dict()}, voice, others=(*_OTHERS, "emb_g."))
    net = whole.eval().requires_grad_(False)["dec"]
    assert isinstance(net, Generator)
    speakers: Tensor | None = None
    if net.cond is not None:
        with torch.inference_mode():
            speakers = net.cond(voice.read("emb_g.weight").to(device)[..., None])
    flat(net)
    return net, speakers


def sizes_of(voice: PiperVoice) -> Sizes:
    """Raises KeyError or ValueError for tensors that are no generator."""
    shapes = voice.shapes
    channels, latent, kernel = shapes["dec.conv_pre.weight"]
    if kernel != _PRE:
        raise ValueError(f"dec.conv_pre has {kernel} taps")
    ups = voice.count("dec.ups.{}")
    blocks = voice.count("dec.resblocks.{}") // ups
    stages = tuple(
        Stage(
            shapes[f"dec.ups.{i}.weight"][2],
            voice.ints(f"dec.ups.{i}", "strides"),
            tuple(_block(voice, f"dec.resblocks.{i * blocks + j}") for j in range(blocks)),
        )
        for i in range(ups)
    )
    samples = 1
    for stage in stages:
        samples *= stage.rate
        if not 0 <= stage.kernel - stage.rate <= stage.rate:
            raise ValueError(f"a step up of {stage.rate} has {stage.kernel} taps")
    if samples != HOP:
        raise ValueError(f"a frame has {samples} samples, not {HOP}")
    speaker = shapes["dec.cond.weight"][1] if "dec.cond.weight" in shapes else 0
    return Sizes(latent, channels, speaker, stages)


def _block(voice: PiperVoice, name: str) -> Block:
    paired = f"{name}.convs1.0.weight" in voice.shapes
    convs = f"{name}.convs1" if paired else f"{name}.convs"
    count = voice.count(f"{convs}.{{}}")
    dilations = tuple(voice.ints(f"{convs}.{i}", "dilations") for i in range(count))
    return Block(voice.shapes[f"{convs}.0.weight"][2], dilations, paired)
