"""Estimators of the flow that are transformers: CosyVoice 3's and Step-Audio 2's."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Final, cast

import torch
from torch import Tensor, nn

from ttscommon.engine.nn.rope import RopeConfig, rope_frequencies, rotated
from ttsfamilies.cosyvoice.s3_flow.past import Pass
from ttsfamilies.cosyvoice.s3_flow.sizes import HEAD_DIM, ConvDiTSizes, DiTSizes
from ttsfamilies.cosyvoice.s3_flow.unet import LeftConv, sinusoids

_EPS: Final = 1e-6
_GROUPS: Final = 16
_TIME_WAVES: Final = 256


class PositionalConvolutions(nn.Module):
    """Two grouped convolutions over this step and those before it."""

    def __init__(self, c: DiTSizes) -> None:
        super().__init__()
        self._reach = c.kernel - 1
        convs = (nn.Conv1d(c.width, c.width, c.kernel, groups=_GROUPS) for _ in range(2))
        self.conv1, self.conv2 = (nn.ModuleList((conv,)) for conv in convs)

    def forward(self, x: Tensor, run: Pass) -> Tensor:
        """[rows, steps, width] -> the same."""
        x = x.mT
        for conv in (self.conv1, self.conv2):
            x = nn.functional.mish(conv[0](run.behind(x, self._reach)))
        return x.mT


class InputEmbed(nn.Module):
    """All that a step is told, and where it is."""

    def __init__(self, c: DiTSizes) -> None:
        super().__init__()
        self.proj = nn.Linear(c.inputs, c.width)
        self.conv_pos_embed = PositionalConvolutions(c)

    def forward(self, x: Tensor, run: Pass) -> Tensor:
        """[rows, steps, inputs] -> [rows, steps, width]."""
        x = self.proj(x)
        return self.conv_pos_embed(x, run) + x


class Modulation(nn.Module):
    """What a norm is told of the time: `parts` vectors of the width."""

    def __init__(self, width: int, parts: int) -> None:
        super().__init__()
        self.linear, self._parts = nn.Linear(width, parts * width), parts

    def forward(self, time: Tensor) -> tuple[Tensor, ...]:
        """[rows, width] -> [rows, 1, width] each."""
        told: Tensor = self.linear(nn.functional.silu(time))[:, None]
        return told.chunk(self._parts, 2)


class DiTBlock(nn.Module):
    """Attention and a feed-forward network that follow the time (AdaLN-zero)."""

    def __init__(self, c: DiTSizes) -> None:
        super().__init__()
        self.attn_norm = Modulation(c.width, 6)
        heads = {f"to_{which}": nn.Linear(c.width, c.inner) for which in "qkv"}
        self.attn = nn.ModuleDict(
            {**heads, "to_out": nn.ModuleList((nn.Linear(c.inner, c.width),))}
        )
        rise = nn.ModuleList((nn.Linear(c.width, c.hidden),))
        net = nn.ModuleDict({"0": rise, "2": nn.Linear(c.hidden, c.width)})
        self.ff = nn.ModuleDict({"ff": net})

    def forward(self, x: Tensor, time: Tensor, turns: tuple[Tensor, Tensor], run: Pass) -> Tensor:
        """[rows, steps, width] -> the same."""
        shift, scale, gate, ff_shift, ff_scale, ff_gate = self.attn_norm(time)
        x = x + gate * self._attend(normed(x) * (1 + scale) + shift, turns, run)
        return x + ff_gate * self._feed(normed(x) * (1 + ff_scale) + ff_shift)

    def _attend(self, x: Tensor, turns: tuple[Tensor, Tensor], run: Pass) -> Tensor:
        """Rotation is of the first head alone: published models were trained so."""
        q, k, v = (self.attn[f"to_{which}"](x).unflatten(2, (-1, HEAD_DIM)) for which in "qkv")
        q, k = (torch.cat((rotated(part[:, :, :1], *turns), part[:, :, 1:]), 2) for part in (q, k))
        return cast(nn.ModuleList, self.attn["to_out"])[0](run.attend(q, k, v))

    def _feed(self, x: Tensor) -> Tensor:
        net = cast(nn.ModuleDict, self.ff["ff"])
        return net["2"](nn.functional.gelu(cast(nn.ModuleList, net["0"])[0](x), approximate="tanh"))


class DiT(nn.Module):
    """Where the flow goes from here; see UNet."""

    def __init__(self, c: DiTSizes) -> None:
        super().__init__()
        mlp = {"0": nn.Linear(_TIME_WAVES, c.width), "2": nn.Linear(c.width, c.width)}
        self.time_embed = nn.ModuleDict({"time_mlp": nn.ModuleDict(mlp)})
        self.input_embed = InputEmbed(c)
        self.transformer_blocks = nn.ModuleList(DiTBlock(c) for _ in range(c.layers))
        self.norm_out = Modulation(c.width, 2)
        self.proj_out = nn.Linear(c.width, c.mels)

    def forward(
        self, x: Tensor, mu: Tensor, speaker: Tensor, cond: Tensor, span: Tensor, run: Pass
    ) -> Tensor:
        """[rows, mels, steps] each, but the speaker's [rows, mels]; span: [rows, 2] times."""
        mlp = cast(nn.ModuleDict, self.time_embed["time_mlp"])
        time = mlp["2"](nn.functional.silu(mlp["0"](sinusoids(span[:, 0], _TIME_WAVES))))
        wide = speaker[..., None].expand(-1, -1, x.shape[2])
        y = self.input_embed(torch.cat((x, cond, mu, wide), 1).mT, run)
        turns = _turns(run, x)
        for block in self.transformer_blocks:
            y = block(y, time, turns, run)
        scale, shift = self.norm_out(time)
        return self.proj_out(normed(y) * (1 + scale) + shift).mT


def normed(x: Tensor) -> Tensor:
    """To mean 0 and variance 1, with no weights."""
    return nn.functional.layer_norm(x, x.shape[-1:], eps=_EPS)


def _turns(run: Pass, x: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines of every row's positions, [rows, steps, 1, head_dim / 2]."""
    at = run.begins(x.device)[:, None] + torch.arange(x.shape[2], device=x.device)
    angle = at[..., None, None].float() * _frequencies(x.device)
    return angle.cos().to(x.dtype), angle.sin().to(x.dtype)


@cache
def _frequencies(device: torch.device) -> Tensor:
    """Copied to a device once, and not while a graph is recorded."""
    return rope_frequencies(HEAD_DIM, RopeConfig()).to(device)


# The estimator of Step-Audio 2: a diffusion transformer with convolutions and without positions.
#
# Every step sees all that is new and all that is carried. Names of modules are those of published
# checkpoints.


_SCALE: Final = 1000.0


class NormedHeads(nn.Module):
    """Attention whose queries and keys are normed head by head."""

    def __init__(self, c: ConvDiTSizes) -> None:
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(c.width, c.inner) for _ in range(3))
        self.q_norm, self.k_norm = nn.LayerNorm(HEAD_DIM), nn.LayerNorm(HEAD_DIM)
        self.proj = nn.Linear(c.inner, c.width)

    def forward(self, x: Tensor, run: Pass) -> Tensor:
        """[rows, steps, width] -> the same."""
        q, k, v = (to(x).unflatten(2, (-1, HEAD_DIM)) for to in (self.to_q, self.to_k, self.to_v))
        return self.proj(run.attend(self.q_norm(q), self.k_norm(k), v))


class LeftPair(nn.Module):
    """Two convolutions over this step and those before it, with a norm between."""

    def __init__(self, width: int) -> None:
        super().__init__()
        parts = {"1": LeftConv(width, width), "3": nn.LayerNorm(width), "6": LeftConv(width, width)}
        self.block = nn.ModuleDict(parts)

    def forward(self, x: Tensor, run: Pass) -> Tensor:
        """[rows, steps, width] -> the same."""
        first, second = (cast(LeftConv, self.block[place]) for place in ("1", "6"))
        x = nn.functional.mish(self.block["3"](first.passed(x.mT, run).mT))
        return second.passed(x.mT, run).mT


class ConvDiTBlock(nn.Module):
    """Attention, convolutions and a feed-forward network that follow the time (AdaLN-zero)."""

    def __init__(self, c: ConvDiTSizes) -> None:
        super().__init__()
        self.attn, self.conv = NormedHeads(c), LeftPair(c.width)
        net = {"fc1": nn.Linear(c.width, c.hidden), "fc2": nn.Linear(c.hidden, c.width)}
        self.mlp = nn.ModuleDict(net)
        self.adaLN_modulation = nn.ModuleDict({"1": nn.Linear(c.width, 9 * c.width)})

    def forward(self, x: Tensor, time: Tensor, run: Pass) -> Tensor:
        """[rows, steps, width], time [rows, 1, width] -> the first's shape."""
        attn, feed, conv = _parts(self.adaLN_modulation, time, 9).split(3, 2)
        x = x + _gate(attn) * self.attn(_moved(x, attn), run)
        x = x + _gate(conv) * self.conv(_moved(x, conv), run)
        hidden = nn.functional.gelu(self.mlp["fc1"](_moved(x, feed)), approximate="tanh")
        return x + _gate(feed) * self.mlp["fc2"](hidden)


class LastLayer(nn.Module):
    """To mel bands."""

    def __init__(self, c: ConvDiTSizes) -> None:
        super().__init__()
        self.adaLN_modulation = nn.ModuleDict({"1": nn.Linear(c.width, 2 * c.width)})
        self.linear = nn.Linear(c.width, c.mels)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        told = _parts(self.adaLN_modulation, time, 2)
        return self.linear(_moved(x, told))


class ConvDiT(nn.Module):
    """Where the flow goes from here; see UNet."""

    def __init__(self, c: ConvDiTSizes) -> None:
        super().__init__()
        mlp = {"0": nn.Linear(_TIME_WAVES, c.width), "2": nn.Linear(c.width, c.width)}
        self.t_embedder = nn.ModuleDict({"mlp": nn.ModuleDict(mlp)})
        self.in_proj = nn.Linear(c.inputs, c.width)
        self.blocks = nn.ModuleList(ConvDiTBlock(c) for _ in range(c.layers))
        self.final_layer = LastLayer(c)

    def forward(
        self, x: Tensor, mu: Tensor, speaker: Tensor, cond: Tensor, span: Tensor, run: Pass
    ) -> Tensor:
        """[rows, mels, steps] each, but the speaker's [rows, mels]; span: [rows, 2] times."""
        mlp = cast(nn.ModuleDict, self.t_embedder["mlp"])
        time = mlp["2"](nn.functional.silu(mlp["0"](_waves(span[:, 0]))))[:, None]
        wide = speaker[..., None].expand(-1, -1, x.shape[2])
        y = self.in_proj(torch.cat((x, mu, wide, cond), 1).mT)
        for block in self.blocks:
            y = block(y, time, run)
        return self.final_layer(y, time).mT


def _parts(told: nn.ModuleDict, time: Tensor, count: int) -> Any:
    """[rows, 1, width] -> [rows, 1, count, width]."""
    found: Tensor = told["1"](nn.functional.silu(time))
    return found.reshape(*time.shape[:2], count, -1)


def _moved(x: Tensor, told: Tensor) -> Tensor:
    """told: shift and scale, [rows, 1, 2 or more, width]."""
    return normed(x) * (1 + told[:, :, 1]) + told[:, :, 0]


def _gate(told: Tensor) -> Tensor:
    return told[:, :, 2]


def _waves(time: Tensor) -> Tensor:
    """[rows] -> [rows, _TIME_WAVES]: cosines, then sines; frequencies in float32, as trained."""
    half = _TIME_WAVES // 2
    at = torch.arange(half, dtype=torch.float32, device=time.device)
    frequency = torch.exp(-math.log(10_000) * at / half).to(time.dtype)
    angle = _SCALE * time[:, None] * frequency
    return torch.cat((angle.cos(), angle.sin()), 1)
