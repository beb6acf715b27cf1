"""Rows of a paged KV cache, written by number: exact copies in every version."""

from __future__ import annotations

from torch import Tensor

from ttscommon.engine.kernels.blocks import HeadRotation
from ttscommon.engine.kernels.choice import use_triton


def store(k: Tensor, v: Tensor, keys: Tensor, values: Tensor, places: Tensor) -> None:
    """Put tokens [tokens, kv_heads, head_dim] at rows `places` [tokens] int64 of one layer.

    keys, values: [rows, kv_heads, head_dim]. Tokens may share a row that is not read.
    """
    keys.index_copy_(0, places, k.to(keys.dtype))
    values.index_copy_(0, places, v.to(values.dtype))


def rotate_store(
    heads: Tensor, rotation: HeadRotation, keys: Tensor, values: Tensor, places: Tensor
) -> Tensor:
    """Rotate a product's queries and keys, and `store` its keys and values.

    heads: [tokens, all heads, head_dim], the others as of `store`. Returns the queries [tokens,
    heads, head_dim], contiguous.
    """
    if use_triton(keys):
        from ttsfamilies.base.kernels import cache_triton

        return cache_triton.rotate_store(heads, rotation, keys, values, places)
    q, k, v = rotation.parts(heads)
    store(rotation.keys(k), v, keys, values, places)
    return rotation.queries(q)
