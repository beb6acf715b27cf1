"""Rotary position embedding (Su et al., 2021), on neighbouring pairs of channels."""

import torch
from torch import Tensor


def rope_table(length: int, head_dim: int, base: float = 10_000.0) -> tuple[Tensor, Tensor]:
    """Cosines and sines of all positions, each [length, head_dim / 2] float32."""
    frequency = base ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency[None]
    return angle.cos().float(), angle.sin().float()


def apply_rope(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotate [..., heads, head_dim] by tables gathered to [..., head_dim / 2]."""
    cosines, sines = cosines.unsqueeze(-2), sines.unsqueeze(-2)
    even, odd = x[..., 0::2], x[..., 1::2]
    rotated = (even * cosines - odd * sines, even * sines + odd * cosines)
    return torch.stack(rotated, -1).flatten(-2)
