"""Tokens to what the flow is told of each mel frame.

CosyVoice 2 and Chatterbox: a conformer encoder without convolutions (ESPnet's relative positions),
six layers at 25 Hz and four at 50 Hz. CosyVoice 3: tokens are looked ahead and repeated, no more.
Names of modules are those of published checkpoints.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor, nn

from ttsfamilies.cosyvoice.s3_flow.past import NOTHING, GrowingPass, Pass, Past, Stretch
from ttsfamilies.cosyvoice.s3_flow.sizes import LOOKAHEAD, MEL_FRAMES, EncoderSizes

_BACK: Final = 2
_UP_REACH: Final = 2 * MEL_FRAMES
_EPS: Final = 1e-12


@dataclass(frozen=True)
class Encoded:
    """What a stream's encoder keeps: behind its tokens, and behind their frames."""

    tokens: Past = NOTHING
    frames: Past = NOTHING

    @property
    def nbytes(self) -> int:
        return self.tokens.nbytes + self.frames.nbytes


@dataclass(frozen=True)
class Ahead:
    """New tokens of a stream. [tokens] int64, followed by up to LOOKAHEAD that only are looked at;
    count: of those that are encoded. past: what was encoded before.
    """

    tokens: Tensor
    count: int
    past: Encoded = field(default_factory=Encoded)


class Lookahead(nn.Module):
    """A convolution of this step and three to come, then one of it and two before; residual."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(width, inner, LOOKAHEAD + 1)
        self.conv2 = nn.Conv1d(inner, width, _BACK + 1)

    def forward(self, x: Tensor, steps: int, run: Pass) -> Tensor:
        """[streams, steps + LOOKAHEAD, width] -> [streams, steps, width]."""
        y = nn.functional.leaky_relu(self.conv1(x.mT))
        return self.conv2(run.behind(y, _BACK)).mT + x[:, :steps]


class Relative(nn.Module):
    """Attention that is told how far apart two steps are (Dai et al., 2019)."""

    def __init__(self, c: EncoderSizes) -> None:
        super().__init__()
        self._heads, self._head_dim = c.heads, c.width // c.heads
        self.linear_q, self.linear_k = nn.Linear(c.width, c.width), nn.Linear(c.width, c.width)
        self.linear_v, self.linear_out = nn.Linear(c.width, c.width), nn.Linear(c.width, c.width)
        self.linear_pos = nn.Linear(c.width, c.width, bias=False)
        self.pos_bias_u = nn.Parameter(torch.zeros(c.heads, self._head_dim))
        self.pos_bias_v = nn.Parameter(torch.zeros(c.heads, self._head_dim))

    def forward(self, x: Tensor, run: Pass) -> Tensor:
        """[streams, steps, width] -> the same."""
        shape = (self._heads, self._head_dim)
        q, k, v = (
            to(x).unflatten(2, shape) for to in (self.linear_q, self.linear_k, self.linear_v)
        )
        moved = (q + self.pos_bias_v).transpose(1, 2) * self._head_dim**-0.5

        def bias(i: int, stretch: Stretch) -> Tensor:
            return self._apart(moved[i : i + 1, :, : stretch.steps], stretch.past.steps)

        return self.linear_out(run.attend(q + self.pos_bias_u, k, v, bias))

    def _apart(self, q: Tensor, before: int) -> Tensor:
        """[1, heads, steps, head_dim] behind `before` steps -> scores of all distances to all."""
        steps = q.shape[2]
        at = torch.arange(steps, device=q.device)
        distance = torch.arange(1 - steps, before + steps, device=q.device)
        waves = _waves(distance, self.linear_pos.in_features).to(q.dtype)
        shown = self.linear_pos(waves).unflatten(1, (self._heads, -1)).permute(1, 2, 0)
        index = (before + at)[:, None] - torch.arange(before + steps, device=q.device) + steps - 1
        return (q @ shown).gather(3, index.expand(1, self._heads, -1, -1))


class Conformer(nn.Module):
    """A layer: attention and a feed-forward network, normed before."""

    def __init__(self, c: EncoderSizes, eps: float = _EPS) -> None:
        super().__init__()
        self.norm_mha, self.self_attn = nn.LayerNorm(c.width, eps), Relative(c)
        self.norm_ff = nn.LayerNorm(c.width, eps)
        net = {"w_1": nn.Linear(c.width, c.hidden), "w_2": nn.Linear(c.hidden, c.width)}
        self.feed_forward = nn.ModuleDict(net)

    def forward(self, x: Tensor, run: Pass) -> Tensor:
        """[streams, steps, width] -> the same."""
        x = x + self.self_attn(self.norm_mha(x), run)
        hidden = nn.functional.silu(self.feed_forward["w_1"](self.norm_ff(x)))
        return x + self.feed_forward["w_2"](hidden)


class InputProjection(nn.Module):
    """Linear and norm, scaled up."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.out = nn.ModuleDict({"0": nn.Linear(width, width), "1": nn.LayerNorm(width)})

    def forward(self, x: Tensor) -> Tensor:
        return self.out["1"](self.out["0"](x)) * math.sqrt(x.shape[-1])


class UpsampleEncoder(nn.Module):
    """Embedded tokens to twice as many steps."""

    def __init__(self, c: EncoderSizes) -> None:
        super().__init__()
        self.embed, self.up_embed = InputProjection(c.width), InputProjection(c.width)
        self.pre_lookahead_layer = Lookahead(c.width, c.width)
        self.encoders = nn.ModuleList(Conformer(c) for _ in range(c.layers))
        self.up_layer = nn.ModuleDict({"conv": nn.Conv1d(c.width, c.width, _UP_REACH + 1)})
        self.up_encoders = nn.ModuleList(Conformer(c) for _ in range(c.up_layers))
        self.after_norm = nn.LayerNorm(c.width)

    def forward(self, x: Tensor, shown: Tensor, slow: Pass, fast: Pass) -> Tensor:
        """[streams, steps + LOOKAHEAD, width] -> [streams, 2 * steps, width].

        shown: [streams, steps + LOOKAHEAD, 1], 0 behind a stream's end. slow, fast: tokens, frames.
        """
        steps = x.shape[1] - LOOKAHEAD
        x = self.pre_lookahead_layer(self.embed(x) * shown, steps, slow)
        for layer in self.encoders:
            x = layer(x, slow)
        x = x.repeat_interleave(MEL_FRAMES, 1).mT
        x = self.up_embed(self.up_layer["conv"](fast.behind(x, _UP_REACH)).mT)
        for layer in self.up_encoders:
            x = layer(x, fast)
        return self.after_norm(x)


def passes(works: Sequence[Ahead], chunk: int) -> tuple[GrowingPass, GrowingPass]:
    """Of tokens and of frames; chunk: of tokens."""
    slow = [Stretch(work.past.tokens, work.count, chunk) for work in works]
    fast = [
        Stretch(work.past.frames, work.count * MEL_FRAMES, chunk * MEL_FRAMES) for work in works
    ]
    return GrowingPass(slow), GrowingPass(fast)


def padded(works: Sequence[Ahead]) -> tuple[Tensor, Tensor]:
    """Tokens [streams, steps + LOOKAHEAD] int64, and which of them there are, with one dimension
    more.
    """
    steps = max(work.count for work in works) + LOOKAHEAD
    tokens = torch.stack(
        [nn.functional.pad(work.tokens, (0, steps - len(work.tokens))) for work in works]
    )
    at = torch.arange(steps, device=tokens.device)
    lengths = torch.tensor([len(work.tokens) for work in works], device=tokens.device)
    return tokens, (at < lengths[:, None])[..., None]


def _waves(distance: Tensor, size: int) -> Tensor:
    """[steps] -> [steps, size]: sines and cosines in turn, in float32 as the reference has them."""
    slope = -math.log(10_000) / size
    exponent = torch.arange(0, size, 2, dtype=torch.float32, device=distance.device)
    angle = distance[:, None].float() * torch.exp(exponent * slope)
    return torch.stack((angle.sin(), angle.cos()), 2).flatten(1)
