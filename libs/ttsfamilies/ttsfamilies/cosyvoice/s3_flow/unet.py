"""The estimator of CosyVoice 2 and Chatterbox: a U-Net of one level, Matcha-TTS's made causal.

Names of modules are those of published checkpoints.
"""

from __future__ import annotations

import math
from typing import Final, cast

import torch
from torch import Tensor, nn

from ttsfamilies.cosyvoice.s3_flow.past import Pass
from ttsfamilies.cosyvoice.s3_flow.sizes import HEAD_DIM, UNetSizes

_SCALE: Final = 1000.0
_REACH: Final = 2


class LeftConv(nn.Conv1d):
    """Three taps: this step and the two before it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, _REACH + 1)

    def passed(self, x: Tensor, run: Pass) -> Tensor:
        return self(run.behind(x, _REACH))


class ConvolutionUnit(nn.Module):
    """Convolution, norm over channels and Mish."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.block = nn.ModuleDict({"0": LeftConv(inputs, outputs), "2": nn.LayerNorm(outputs)})

    def forward(self, x: Tensor, run: Pass) -> Tensor:
        """[rows, inputs, steps] -> [rows, outputs, steps]."""
        x = cast(LeftConv, self.block["0"]).passed(x, run)
        return nn.functional.mish(self.block["2"](x.mT)).mT


class Resnet(nn.Module):
    """Two units with the time between them, around a residual."""

    def __init__(self, inputs: int, outputs: int, time: int) -> None:
        super().__init__()
        self.mlp = nn.ModuleDict({"1": nn.Linear(time, outputs)})
        self.block1, self.block2 = (
            ConvolutionUnit(inputs, outputs),
            ConvolutionUnit(outputs, outputs),
        )
        self.res_conv = nn.Conv1d(inputs, outputs, 1)

    def forward(self, x: Tensor, time: Tensor, run: Pass) -> Tensor:
        """[rows, inputs, steps] and [rows, time] -> [rows, outputs, steps]."""
        y = self.block1(x, run) + self.mlp["1"](nn.functional.mish(time))[..., None]
        return self.block2(y, run) + self.res_conv(x)


class _Rise(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.proj = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.gelu(self.proj(x))


class _Heads(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.to_q = nn.Linear(width, inner, bias=False)
        self.to_k = nn.Linear(width, inner, bias=False)
        self.to_v = nn.Linear(width, inner, bias=False)
        self.to_out = nn.ModuleDict({"0": nn.Linear(inner, width)})

    def forward(self, x: Tensor, run: Pass) -> Tensor:
        """[rows, steps, width] -> the same."""
        q, k, v = (to(x).unflatten(2, (-1, HEAD_DIM)) for to in (self.to_q, self.to_k, self.to_v))
        return self.to_out["0"](run.attend(q, k, v))


class Layer(nn.Module):
    """Attention and a feed-forward network, normed before."""

    def __init__(self, width: int, inner: int, hidden: int) -> None:
        super().__init__()
        self.norm1, self.attn1 = nn.LayerNorm(width), _Heads(width, inner)
        self.norm3 = nn.LayerNorm(width)
        net = {"0": _Rise(width, hidden), "2": nn.Linear(hidden, width)}
        self.ff = nn.ModuleDict({"net": nn.ModuleDict(net)})

    def forward(self, x: Tensor, run: Pass) -> Tensor:
        """[rows, steps, width] -> the same."""
        x = x + self.attn1(self.norm1(x), run)
        net = cast(nn.ModuleDict, self.ff["net"])
        return x + cast(Tensor, net["2"](net["0"](self.norm3(x))))


class UNetLevel(nn.ModuleList):
    """A resnet, layers, and a convolution where a level has one."""

    def __init__(self, c: UNetSizes, inputs: int, *, closes: bool) -> None:
        layers = nn.ModuleList(Layer(c.width, c.inner, c.hidden) for _ in range(c.layers))
        last = (LeftConv(c.width, c.width),) if closes else ()
        super().__init__((Resnet(inputs, c.width, c.time), layers, *last))

    def body(self, x: Tensor, time: Tensor, run: Pass) -> Tensor:
        """[rows, inputs, steps] -> [rows, width, steps], without the convolution."""
        x = self[0](x, time, run).mT
        for layer in cast(nn.ModuleList, self[1]):
            x = layer(x, run)
        return x.mT

    def close(self, x: Tensor, run: Pass) -> Tensor:
        return cast(LeftConv, self[2]).passed(x, run)


class TimeMLP(nn.Module):
    """Sinusoids of a time to what blocks are told of it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(inputs, outputs)
        self.linear_2 = nn.Linear(outputs, outputs)

    def forward(self, time: Tensor) -> Tensor:
        """[rows] in 0..1 -> [rows, outputs]."""
        waves = sinusoids(time, self.linear_1.in_features)
        return self.linear_2(nn.functional.silu(self.linear_1(waves)))


class UNet(nn.Module):
    """Where the flow goes from here: [rows, 4 * mels, steps] -> [rows, mels, steps].

    Two times where the checkpoint has a mixer of them: from when to when a step goes (meanflow).
    """

    def __init__(self, c: UNetSizes) -> None:
        super().__init__()
        self.time_mlp = TimeMLP(c.inputs, c.time)
        if c.meanflow:
            self.time_embed_mixer = nn.Linear(2 * c.time, c.time, bias=False)
        self.down_blocks = nn.ModuleList((UNetLevel(c, c.inputs, closes=True),))
        self.mid_blocks = nn.ModuleList(
            UNetLevel(c, c.width, closes=False) for _ in range(c.middle)
        )
        self.up_blocks = nn.ModuleList((UNetLevel(c, 2 * c.width, closes=True),))
        self.final_block = ConvolutionUnit(c.width, c.width)
        self.final_proj = nn.Conv1d(c.width, c.mels, 1)

    def forward(
        self, x: Tensor, mu: Tensor, speaker: Tensor, cond: Tensor, span: Tensor, run: Pass
    ) -> Tensor:
        """[rows, mels, steps] each, but the speaker's [rows, mels]; span: [rows, 2] times."""
        time = self._time(span)
        wide = speaker[..., None].expand(-1, -1, x.shape[2])
        x = torch.cat((x, mu, wide, cond), 1)
        down, up = cast(UNetLevel, self.down_blocks[0]), cast(UNetLevel, self.up_blocks[0])
        x = skip = down.body(x, time, run)
        x = down.close(x, run)
        for level in self.mid_blocks:
            x = cast(UNetLevel, level).body(x, time, run)
        x = up.close(up.body(torch.cat((x, skip), 1), time, run), run)
        return self.final_proj(self.final_block(x, run))

    def _time(self, span: Tensor) -> Tensor:
        begin: Tensor = self.time_mlp(span[:, 0])
        if not hasattr(self, "time_embed_mixer"):
            return begin
        return self.time_embed_mixer(torch.cat((begin, self.time_mlp(span[:, 1])), 1))


def sinusoids(time: Tensor, size: int) -> Tensor:
    """[rows] -> [rows, size]; frequencies in float32, as models saw them in training."""
    half = size // 2
    slope = -math.log(10_000) / (half - 1)
    frequency = torch.exp(torch.arange(half, device=time.device, dtype=torch.float32) * slope)
    angle = _SCALE * time[:, None] * frequency
    return torch.cat((angle.sin(), angle.cos()), 1).to(time.dtype)
