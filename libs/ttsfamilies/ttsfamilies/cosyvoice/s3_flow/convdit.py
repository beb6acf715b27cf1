"""The estimator of Step-Audio 2: a diffusion transformer with convolutions and without positions.

Every step sees all that is new and all that is carried. Names of modules are those of published
checkpoints.
"""

from __future__ import annotations

import math
from typing import Any, Final, cast

import torch
from torch import Tensor, nn

from ttsfamilies.cosyvoice.s3_flow.dit import normed
from ttsfamilies.cosyvoice.s3_flow.past import Pass
from ttsfamilies.cosyvoice.s3_flow.sizes import HEAD_DIM, ConvDiTSizes
from ttsfamilies.cosyvoice.s3_flow.unet import LeftConv

_TIME_WAVES: Final = 256
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
        found: Tensor = self.proj(run.attend(self.q_norm(q), self.k_norm(k), v))
        return found


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
        found: Tensor = second.passed(x.mT, run).mT
        return found


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
        found: Tensor = x + _gate(feed) * self.mlp["fc2"](hidden)
        return found


class LastLayer(nn.Module):
    """To mel bands."""

    def __init__(self, c: ConvDiTSizes) -> None:
        super().__init__()
        self.adaLN_modulation = nn.ModuleDict({"1": nn.Linear(c.width, 2 * c.width)})
        self.linear = nn.Linear(c.width, c.mels)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        told = _parts(self.adaLN_modulation, time, 2)
        found: Tensor = self.linear(_moved(x, told))
        return found


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
        found: Tensor = self.final_layer(y, time).mT
        return found


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
