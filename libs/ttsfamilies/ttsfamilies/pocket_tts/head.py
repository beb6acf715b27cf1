"""The head: noise to a latent in a few steps, under what the backbone knows (Li et al., 2024).

lsd (Boffi et al., 2025): jumps along the flow, told where each begins and ends. flow_matching:
Euler steps. drifting: the sample itself. pointwise: what is added to the noise.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ttsfamilies.pocket_tts.sizes import Flow

_FREQUENCIES = 128


class TimeEmbedding(nn.Module):
    """A time's sines and cosines, through two layers. Its norm divides by the variance."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.frequencies = nn.Parameter(torch.empty(_FREQUENCIES))
        self.rise, self.out = nn.Linear(2 * _FREQUENCIES, dim), nn.Linear(dim, dim)
        self.alpha = nn.Parameter(torch.empty(dim))

    def forward(self, time: Tensor) -> Tensor:
        """[..., 1] -> [..., dim]."""
        angles = time * self.frequencies
        waves = torch.cat((angles.cos(), angles.sin()), -1)
        x = self.out(nn.functional.silu(self.rise(waves)))
        found: Tensor = x * self.alpha * torch.rsqrt(1e-5 + x.var(-1, keepdim=True))
        return found


class Modulated(nn.Module):
    """A block whose norm is shifted and scaled by the condition, around a gated residual."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim, 1e-6)
        self.rise, self.out = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.modulation = nn.Linear(dim, 3 * dim)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        shift, scale, gate = self.modulation(condition).chunk(3, -1)
        inner = self.norm(x) * (1 + scale) + shift
        found: Tensor = x + gate * self.out(nn.functional.silu(self.rise(inner)))
        return found


class FlowHead(nn.Module):
    """Call `freeze` after loading."""

    times: Tensor

    def __init__(self, c: Flow, latent: int, hidden: int, steps: int) -> None:
        super().__init__()
        self.kind, self.steps = c.type, steps
        self.embeddings = nn.ModuleList(TimeEmbedding(c.dim) for _ in range(c.times))
        self.condition = nn.Linear(hidden, c.dim)
        self.noise = nn.Linear(latent, c.dim)
        self.blocks = nn.ModuleList(Modulated(c.dim) for _ in range(c.depth))
        self.norm = nn.LayerNorm(c.dim, 1e-6, elementwise_affine=False)
        self.modulation, self.out = nn.Linear(c.dim, 2 * c.dim), nn.Linear(c.dim, latent)
        self.register_buffer("times", torch.zeros(steps, c.dim), persistent=False)

    @torch.no_grad()
    def freeze(self) -> None:
        """Embed the times of all steps, once and for all."""
        begin = torch.arange(self.steps, device=self.out.weight.device)[:, None] / self.steps
        known = torch.zeros(self.steps, self.out.in_features, device=begin.device)
        for embed, time in zip(self.embeddings, (begin, begin + 1 / self.steps), strict=False):
            known += embed(time) / len(self.embeddings)
        self.times = known

    def forward(self, hidden: Tensor, noise: Tensor) -> Tensor:
        """[rows, hidden], [rows, latent] -> [rows, latent]."""
        known, z = self.condition(hidden), noise
        for time in self.times:
            found = self._step(z, nn.functional.silu(known + time))
            z = found if self.kind == "drifting" else z + found / self.steps
        return z

    def _step(self, z: Tensor, condition: Tensor) -> Tensor:
        x = self.noise(z)
        for block in self.blocks:
            x = block(x, condition)
        shift, scale = self.modulation(condition).chunk(2, -1)
        found: Tensor = self.out(self.norm(x) * (1 + scale) + shift)
        return found
