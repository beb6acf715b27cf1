"""The small parts of a decoder block: residual with norm, rotation with norm, gated activation.

A decode step reads weights for most of its time; left as single operations these parts would be
half of its kernels all the same.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ttscommon.engine.kernels.choice import use_triton


def add_norm(x: Tensor, added: Tensor | None, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """x + added, and its root mean square norm in float32: [..., size] -> both [..., size]."""
    if use_triton(x):
        from ttscommon.engine.kernels import blocks_triton

        more = None if added is None else added.contiguous()
        return blocks_triton.add_norm(x.contiguous(), more, weight, eps)
    summed = x if added is None else x + added
    exact = torch.promote_types(x.dtype, torch.float32)
    normed = functional.rms_norm(summed.to(exact), weight.shape, weight.to(exact), eps)
    return summed, normed.to(x.dtype)


def swiglu(gate_up: Tensor) -> Tensor:
    """silu(gate) * up in float32, of both side by side: [..., 2 * size] -> [..., size]."""
    if use_triton(gate_up):
        from ttscommon.engine.kernels import blocks_triton

        return blocks_triton.swiglu(gate_up.contiguous())
    gate, up = gate_up.to(torch.promote_types(gate_up.dtype, torch.float32)).chunk(2, -1)
    return (functional.silu(gate) * up).to(gate_up.dtype)


def rotate(
    x: Tensor,
    cosines: Tensor,
    sines: Tensor,
    weight: Tensor | None = None,
    eps: float = 1e-6,
) -> Tensor:
    """Heads [rows, heads, head_dim], normed by `weight` if there is one, and rotated by halves.

    cosines, sines: [rows, head_dim / 2] float32. All in float32; the result is contiguous and has
    x's type.
    """
    if use_triton(x):
        from ttscommon.engine.kernels import blocks_triton

        whole = x.stride(2) == 1 and x.stride(1) == x.shape[2]
        return blocks_triton.rotate(
            x if whole else x.contiguous(), cosines.contiguous(), sines.contiguous(), weight, eps
        )
    exact = x.to(torch.promote_types(x.dtype, torch.float32))
    if weight is not None:
        exact = functional.rms_norm(exact, weight.shape, weight.to(exact.dtype), eps)
    low, high = exact.chunk(2, -1)
    cosines, sines = cosines.unsqueeze(-2), sines.unsqueeze(-2)
    return torch.cat((low * cosines - high * sines, low * sines + high * cosines), -1).to(x.dtype)
