"""From ids to mel frames: CosyVoice's first flow, a U-Net of two levels that sees all of a block.

Names of modules are those of published checkpoints. Everything is of one stream: its norms are over
all of the time that they are shown, so that nothing may be padded.
"""

from __future__ import annotations

import math
from typing import Final, cast

import torch
from torch import Tensor, nn

from ttsfamilies.cosyvoice.s3_flow.encoder import Conformer, InputProjection
from ttsfamilies.cosyvoice.s3_flow.past import WholePass
from ttsfamilies.cosyvoice.s3_flow.sizes import FlowSizes, UNetSizes
from ttsfamilies.cosyvoice.s3_flow.unet import Layer, TimeMLP

STEPS: Final = 10
_GUIDANCE: Final = 0.7
_GROUPS: Final = 8
_REGULATED: Final = 4
_EPS: Final = 1e-5
# Ids that the encoder lets see each other, beside all before them.
_BLOCK: Final = 10
# Mel frames of an id, as the reference computes them: in float32.
_RATE, _MEL_HZ, _HOP = 12.5, 22_050, 256


def frames_of(tokens: int) -> int:
    """Mel frames of so many ids."""
    seconds = torch.tensor(tokens, dtype=torch.int32) / _RATE
    return int(seconds * _MEL_HZ / _HOP)


class GroupedUnit(nn.Module):
    """Convolution, norm over groups of channels and time, and Mish."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        conv = nn.Conv1d(inputs, outputs, 3, padding=1)
        self.block = nn.ModuleDict({"0": conv, "1": nn.GroupNorm(_GROUPS, outputs)})

    def forward(self, x: Tensor) -> Tensor:
        """[rows, inputs, steps] -> [rows, outputs, steps]."""
        return nn.functional.mish(self.block["1"](self.block["0"](x)))


class TimedUnits(nn.Module):
    """Two units with the time between them, around a residual."""

    def __init__(self, inputs: int, outputs: int, time: int) -> None:
        super().__init__()
        self.mlp = nn.ModuleDict({"1": nn.Linear(time, outputs)})
        self.block1, self.block2 = GroupedUnit(inputs, outputs), GroupedUnit(outputs, outputs)
        self.res_conv = nn.Conv1d(inputs, outputs, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """[rows, inputs, steps] and [rows, time] -> [rows, outputs, steps]."""
        y = self.block1(x) + self.mlp["1"](nn.functional.mish(time))[..., None]
        return self.block2(y) + self.res_conv(x)


class ScaledLevel(nn.ModuleList):
    """Units, layers, and a convolution to the next level where there is one."""

    def __init__(self, c: UNetSizes, inputs: int, *last: nn.Module) -> None:
        layers = nn.ModuleList(Layer(c.width, c.inner, c.hidden) for _ in range(c.layers))
        super().__init__((TimedUnits(inputs, c.width, c.time), layers, *last))

    def body(self, x: Tensor, time: Tensor) -> Tensor:
        """[rows, inputs, steps] -> [rows, width, steps]."""
        x = self[0](x, time).mT
        for layer in cast(nn.ModuleList, self[1]):
            x = layer(x, WholePass())
        return x.mT

    def close(self, x: Tensor) -> Tensor:
        last = cast("nn.ModuleDict | nn.Conv1d", self[2])
        return last["conv"](x) if isinstance(last, nn.ModuleDict) else last(x)


class HalvingUNet(nn.Module):
    """Where the flow goes from here: [rows, 4 * mels, steps] -> [rows, mels, steps]."""

    def __init__(self, c: UNetSizes) -> None:
        super().__init__()
        w = c.width
        self.time_mlp = TimeMLP(c.inputs, c.time)
        half, double = nn.Conv1d(w, w, 3, 2, 1), nn.ConvTranspose1d(w, w, 4, 2, 1)
        self.down_blocks = nn.ModuleList(
            (
                ScaledLevel(c, c.inputs, nn.ModuleDict({"conv": half})),
                ScaledLevel(c, w, nn.Conv1d(w, w, 3, padding=1)),
            )
        )
        self.mid_blocks = nn.ModuleList(ScaledLevel(c, w) for _ in range(c.middle))
        self.up_blocks = nn.ModuleList(
            (
                ScaledLevel(c, 2 * w, nn.ModuleDict({"conv": double})),
                ScaledLevel(c, 2 * w, nn.Conv1d(w, w, 3, padding=1)),
            )
        )
        self.final_block = GroupedUnit(w, w)
        self.final_proj = nn.Conv1d(w, c.mels, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """time: [rows] in 0..1."""
        told, skips = self.time_mlp(time), []
        for level in cast("list[ScaledLevel]", self.down_blocks):
            x = level.body(x, told)
            skips.append(x)
            x = level.close(x)
        for level in cast("list[ScaledLevel]", self.mid_blocks):
            x = level.body(x, told)
        for level in cast("list[ScaledLevel]", self.up_blocks):
            skip = skips.pop()
            x = level.close(level.body(torch.cat((x[..., : skip.shape[2]], skip), 1), told))
        return self.final_proj(self.final_block(x))


class BlockEncoder(nn.Module):
    """Embedded ids to as many states; a block of ids sees itself and all before it."""

    def __init__(self, sizes: FlowSizes) -> None:
        super().__init__()
        assert sizes.encoder is not None
        self.embed = InputProjection(sizes.width)
        layers = (Conformer(sizes.encoder, _EPS) for _ in range(sizes.encoder.layers))
        self.encoders = nn.ModuleList(layers)
        self.after_norm = nn.LayerNorm(sizes.width, _EPS)

    def forward(self, x: Tensor) -> Tensor:
        """[1, ids, width] -> the same."""
        x = self.embed(x)
        for layer in self.encoders:
            x = layer(x, WholePass(_BLOCK))
        return self.after_norm(x)


class LengthRegulator(nn.Module):
    """States to mel frames: the nearest of each, and convolutions with norms over all time."""

    def __init__(self, mels: int) -> None:
        super().__init__()
        net: dict[str, nn.Module] = {}
        for at in range(0, 3 * _REGULATED, 3):
            net[str(at)] = nn.Conv1d(mels, mels, 3, padding=1)
            net[str(at + 1)] = nn.GroupNorm(1, mels)
        net[str(3 * _REGULATED)] = nn.Conv1d(mels, mels, 1)
        self.model = nn.ModuleDict(net)

    def forward(self, x: Tensor, frames: int) -> Tensor:
        """[1, mels, ids] -> [1, mels, frames]."""
        x = nn.functional.interpolate(x, size=frames, mode="nearest")
        for at, layer in self.model.items():
            x = layer(x)
            x = nn.functional.mish(x) if int(at) % 3 == 1 else x
        return x


class GlmFlow(nn.Module):
    """All that ids go through on their way to mel frames."""

    def __init__(self, sizes: FlowSizes) -> None:
        super().__init__()
        c, self.mels = sizes, sizes.mels
        assert isinstance(c.estimator, UNetSizes)
        self.input_embedding = nn.Embedding(c.ids, c.width)
        self.spk_embed_affine_layer = nn.Linear(c.speaker, c.mels)
        self.encoder = BlockEncoder(c)
        self.encoder_proj = nn.Linear(c.width, c.mels)
        self.length_regulator = LengthRegulator(c.mels)
        self.decoder = nn.ModuleDict({"estimator": HalvingUNet(c.estimator)})

    def conditioning(self, ids: Tensor) -> Tensor:
        """Ids [n] int64 -> what the flow is told of each frame, [mels, frames]."""
        states = self.encoder_proj(self.encoder(self.input_embedding(ids)[None]))
        return self.length_regulator(states.mT, frames_of(len(ids)))[0]

    def step(self, x: Tensor, mu: Tensor, cond: Tensor, done: int) -> Tensor:
        """Where x is a step later: [mels, frames] each. The speaker is no one, as published."""
        speaker = self.spk_embed_affine_layer.bias[:, None].expand_as(mu)
        known = torch.cat((mu, speaker, cond))
        both = torch.stack((known, torch.zeros_like(known)))
        begin, end = (1 - math.cos(math.pi / 2 * at / STEPS) for at in (done, done + 1))
        rows = torch.cat((x.expand(2, -1, -1), both), 1)
        way = self.decoder["estimator"](rows, x.new_full((2,), begin))
        return x + (end - begin) * ((1 + _GUIDANCE) * way[0] - _GUIDANCE * way[1])
