"""The local diffusion transformer: noise to a patch, along a flow that is solved within the step.

Nine calls for ten steps of Euler's method, as the first one moves nothing; each call has two rows
of a stream, told of the language models and not (CFG-Zero*: Fan et al., 2025).
"""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import Decoder, DecoderConfig, LongScaling, RopeConfig, dense_attention
from ttsfamilies.voxcpm2.sizes import LocalSizes, VoxcpmConfig


def rotation(c: VoxcpmConfig) -> RopeConfig:
    """Of all networks."""
    lm = c.lm_config
    return RopeConfig(lm.rope_theta, scaling=LongScaling(lm.factors, lm.gain))


def local_config(c: VoxcpmConfig, sizes: LocalSizes) -> DecoderConfig:
    """The stack of blocks within a patch; it has the KV heads of the language models."""
    lm = c.lm_config
    return DecoderConfig(
        dim=sizes.hidden_dim,
        layers=sizes.num_layers,
        heads=sizes.num_heads,
        kv_heads=lm.num_key_value_heads,
        head_dim=sizes.head_dim,
        hidden=sizes.ffn_dim,
        eps=lm.rms_norm_eps,
        rope=rotation(c),
    )


def attend_within(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """[..., positions, heads, head_dim] each: every position sees all others."""
    del layer
    return dense_attention(q, k, v, None)


class PatchEncoder(nn.Module):
    """A patch's latents to one vector: what is behind a position that stands before them."""

    def __init__(self, c: VoxcpmConfig) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.empty(1, 1, 1, c.encoder_config.hidden_dim))
        self.rise = nn.Linear(c.feat_dim, c.encoder_config.hidden_dim)
        self.decoder = Decoder(local_config(c, c.encoder_config))

    def forward(self, patch: Tensor) -> Tensor:
        """[patches, latents, values] -> [patches, dim]."""
        inner = self.rise(patch.to(self.rise.weight.dtype))
        x = torch.cat((self.first[0].expand(len(inner), -1, -1), inner), 1)
        positions = torch.arange(x.shape[1], device=x.device)
        found: Tensor = self.decoder(x, positions, attend_within)[:, 0]
        return found


_STEPS: Final = 10
_LONGEST: Final = 10_000.0
_SCALE: Final = 1000.0
_LEAST_NORM: Final = 1e-8


def times() -> list[float]:
    """At which the network is called, and that of the answer: from 1, more of them at the end."""
    even = [1 - step / _STEPS for step in range(_STEPS + 1)]
    return [at + math.cos(math.pi / 2 * at) - 1 + at for at in even][1:]


class TimeLayers(nn.Module):
    """Two layers behind a time's sines and cosines."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.rise, self.out = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, at: Tensor) -> Tensor:
        """[times] -> [times, dim]."""
        half = self.rise.in_features // 2
        places = torch.arange(half, dtype=at.dtype, device=at.device)
        waves = torch.exp(places * -(math.log(_LONGEST) / (half - 1)))
        angles = _SCALE * at[:, None] * waves
        told = torch.cat((angles.sin(), angles.cos()), -1).to(self.rise.weight.dtype)
        found: Tensor = self.out(nn.functional.silu(self.rise(told)))
        return found


class PatchSolver(nn.Module):
    """Call `freeze` after loading."""

    times: Tensor

    def __init__(self, c: VoxcpmConfig) -> None:
        super().__init__()
        dim, self.latents = c.dit_config.hidden_dim, c.patch_size
        self.rise, self.condition = nn.Linear(c.feat_dim, dim), nn.Linear(c.feat_dim, dim)
        self.time, self.interval = TimeLayers(dim), TimeLayers(dim)
        self.decoder = Decoder(local_config(c, c.dit_config))
        self.out = nn.Linear(dim, c.feat_dim)
        self.register_buffer("times", torch.zeros(_STEPS - 1, dim), persistent=False)

    @torch.no_grad()
    def freeze(self) -> None:
        """Embed the times of all calls, once and for all; intervals are always told as 0."""
        weight = self.out.weight
        exact = torch.promote_types(weight.dtype, torch.float32)
        at = torch.tensor(times()[:-1], dtype=exact, device=weight.device)
        self.times = self.time(at) + self.interval(torch.zeros_like(at))

    def forward(self, told: Tensor, before: Tensor, noise: Tensor, guidance: Tensor) -> Tensor:
        """told: [rows, 2, dim], by the language models. before: the patch before, and noise:
        [rows, latents, values] each. guidance: [rows]. Returns a patch, of the noise's type.
        """
        told = torch.stack((told, torch.zeros_like(told)), 1)
        condition = self.condition(before.to(told.dtype))[:, None].expand(-1, 2, -1, -1)
        x, known = noise, times()
        for at, begin, end in zip(self.times, known, known[1:], strict=False):
            inner = self.rise(x.to(told.dtype))[:, None].expand(-1, 2, -1, -1)
            time = at.expand(len(x), 2, 1, -1)
            velocity = self._velocity(torch.cat((told, time, condition, inner), 2)).to(x.dtype)
            x = x - (begin - end) * guided(velocity[:, 0], velocity[:, 1], guidance)
        return x

    def _velocity(self, x: Tensor) -> Tensor:
        """[rows, 2, positions, dim] -> [rows, 2, latents, values]."""
        positions = torch.arange(x.shape[2], device=x.device)
        found: Tensor = self.out(self.decoder(x, positions, attend_within)[:, :, -self.latents :])
        return found


def guided(told: Tensor, untold: Tensor, guidance: Tensor) -> Tensor:
    """[rows, latents, values] each, guidance [rows] -> the same."""
    one, other = told.flatten(1), untold.flatten(1)
    share = (one * other).sum(1) / ((other * other).sum(1) + _LEAST_NORM)
    base = untold * share[:, None, None]
    return base + guidance[:, None, None] * (told - base)
