"""Attention within a frame: a depth transformer's, over the few positions of one frame."""

from __future__ import annotations

import torch
from torch import Tensor

from ttscommon.engine.kernels.blocks import HeadRotation
from ttscommon.engine.kernels.choice import use_triton
from ttscommon.engine.nn import dense_attention


def attend_frame(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keys: Tensor,
    values: Tensor,
    filled: int,
    rotation: HeadRotation | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Store k and v behind `filled` positions; attention of q over all positions up to its own.

    q: [rows, new, heads, head_dim]; k, v: [rows, new, kv_heads, head_dim];
    keys, values: [rows, positions, kv_heads, head_dim] float32, of any content behind `filled`.
    rotation: of q and k before that, its angles those of the `new` positions; None where it is
    done. Returns [rows, new, heads, head_dim] in `dtype`, or v's type.
    """
    if use_triton(q):
        from ttsfamilies.base.kernels import frame_triton

        return frame_triton.attend_frame(
            *(q, k, v, keys, values, filled, rotation), dtype or v.dtype
        )
    if rotation is not None:
        q, k = rotation.queries(q), rotation.keys(k)
    end = filled + k.shape[1]
    keys[:, filled:end], values[:, filled:end] = k, v
    visible = None
    if q.shape[1] > 1:
        visible = torch.ones(end, end, dtype=torch.bool, device=q.device).tril()[filled:]
    return dense_attention(q, keys[:, :end], values[:, :end], visible).to(dtype or v.dtype)
