"""The estimator of Fun-CosyVoice 3: a diffusion transformer as in F5-TTS, made causal.

Names of modules are those of published checkpoints.
"""

from __future__ import annotations

from functools import cache
from typing import Final, cast

import torch
from torch import Tensor, nn

from ttscommon.engine.nn.rope import RopeConfig, rope_frequencies, rotated
from ttsfamilies.cosyvoice.s3_flow.past import Pass
from ttsfamilies.cosyvoice.s3_flow.sizes import HEAD_DIM, DiTSizes
from ttsfamilies.cosyvoice.s3_flow.unet import sinusoids

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
        found: Tensor = self.conv_pos_embed(x, run) + x
        return found


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
        found: Tensor = x + ff_gate * self._feed(normed(x) * (1 + ff_scale) + ff_shift)
        return found

    def _attend(self, x: Tensor, turns: tuple[Tensor, Tensor], run: Pass) -> Tensor:
        """Rotation is of the first head alone: published models were trained so."""
        q, k, v = (self.attn[f"to_{which}"](x).unflatten(2, (-1, HEAD_DIM)) for which in "qkv")
        q, k = (torch.cat((rotated(part[:, :, :1], *turns), part[:, :, 1:]), 2) for part in (q, k))
        found: Tensor = cast(nn.ModuleList, self.attn["to_out"])[0](run.attend(q, k, v))
        return found

    def _feed(self, x: Tensor) -> Tensor:
        net = cast(nn.ModuleDict, self.ff["ff"])
        found: Tensor = net["2"](
            nn.functional.gelu(cast(nn.ModuleList, net["0"])[0](x), approximate="tanh")
        )
        return found


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
        found: Tensor = self.proj_out(normed(y) * (1 + scale) + shift).mT
        return found


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
