"""The small parts of a decoder block: residual with norm, rotation with norm, gated activation.

A decode step reads weights for most of its time; left as single operations these parts would be
half of its kernels all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from ttscommon.engine.kernels.choice import use_numba, use_triton


@dataclass(frozen=True)
class HeadRotation:
    """What a layer does to its queries and keys before they meet.

    shares: heads of queries, keys and values, as they stand in one product. cosines, sines:
    [n, head_dim / 2] float32, of rows i, i + n, i + 2n ... q_weight, k_weight: [head_dim] each, of
    a norm before the rotation; None for none.
    """

    shares: Sequence[int]
    cosines: Tensor
    sines: Tensor
    q_weight: Tensor | None = None
    k_weight: Tensor | None = None
    eps: float = 1e-6

    def parts(self, heads: Tensor) -> tuple[Tensor, ...]:
        """[..., all heads, head_dim] -> those of queries, of keys and of values."""
        return torch.split(heads, list(self.shares), -2)

    def queries(self, heads: Tensor) -> Tensor:
        """[..., heads, head_dim] -> the same, contiguous."""
        return self._turned(heads, self.q_weight)

    def keys(self, heads: Tensor) -> Tensor:
        """As `queries`."""
        return self._turned(heads, self.k_weight)

    def _turned(self, x: Tensor, weight: Tensor | None) -> Tensor:
        rows = x.flatten(0, -3)
        return rotate(rows, self.cosines, self.sines, weight, self.eps).view(x.shape)


def add_norm(
    x: Tensor, added: Tensor | None, weight: Tensor, eps: float, scale: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """x + added, and its root mean square norm in float32: [..., size] -> both [..., size].

    scale: [size], a factor of what is added.
    """
    if use_triton(x):
        from ttscommon.engine.kernels import blocks_triton

        more = None if added is None else added.contiguous()
        return blocks_triton.add_norm(x.contiguous(), more, weight, eps, scale)
    if use_numba(x) and scale is None:
        from ttscommon.engine.kernels import blocks_numba

        if added is None:
            return x, blocks_numba.norm(x, weight, eps)
        return blocks_numba.add_norm(x, added, weight, eps)
    if added is not None and scale is not None:
        added = added * scale
    summed = x if added is None else x + added
    exact = torch.promote_types(x.dtype, torch.float32)
    normed = functional.rms_norm(summed.to(exact), weight.shape, weight.to(exact), eps)
    return summed, normed.to(x.dtype)


def swiglu(gate_up: Tensor) -> Tensor:
    """silu(gate) * up in float32, of both side by side: [..., 2 * size] -> [..., size]."""
    if use_triton(gate_up):
        from ttscommon.engine.kernels import blocks_triton

        return blocks_triton.swiglu(gate_up.contiguous())
    if use_numba(gate_up):
        from ttscommon.engine.kernels import blocks_numba

        return blocks_numba.swiglu(gate_up)
    gate, up = gate_up.to(torch.promote_types(gate_up.dtype, torch.float32)).chunk(2, -1)
    return (functional.silu(gate) * up).to(gate_up.dtype)


def gelu(x: Tensor) -> Tensor:
    """The exact one, by the error function: [..., size] -> the same."""
    if use_numba(x):
        from ttscommon.engine.kernels import blocks_numba

        return blocks_numba.gelu(x)
    return functional.gelu(x)


def rotate(
    x: Tensor,
    cosines: Tensor,
    sines: Tensor,
    weight: Tensor | None = None,
    eps: float = 1e-6,
) -> Tensor:
    """Heads [rows, heads, head_dim], normed by `weight` if there is one, and rotated by halves.

    cosines, sines: [n, head_dim / 2] float32, of rows i, i + n, i + 2n ... All in float32; the
    result is contiguous and has x's type.
    """
    if use_triton(x):
        from ttscommon.engine.kernels import blocks_triton

        whole = x.stride(2) == 1 and x.stride(1) == x.shape[2]
        return blocks_triton.rotate(x if whole else x.contiguous(), cosines, sines, weight, eps)
    exact = x.to(torch.promote_types(x.dtype, torch.float32))
    if weight is not None:
        exact = functional.rms_norm(exact, weight.shape, weight.to(exact.dtype), eps)
    low, high = exact.view(-1, len(cosines), *x.shape[1:]).chunk(2, -1)
    cosines, sines = cosines.unsqueeze(-2), sines.unsqueeze(-2)
    turned = torch.cat((low * cosines - high * sines, low * sines + high * cosines), -1)
    return turned.flatten(0, 1).to(x.dtype)
