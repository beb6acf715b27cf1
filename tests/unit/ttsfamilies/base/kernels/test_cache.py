"""Rows of a cache are written bit by bit, NaN included."""

import pytest
import torch

from ttscommon.engine.kernels.blocks import HeadRotation
from ttscommon.engine.kernels.choice import only
from ttsfamilies.base.kernels.attention import rotate_store, store

pytest.importorskip("triton")


def bits(x: torch.Tensor) -> torch.Tensor:
    return x.view(torch.int16 if x.dtype == torch.bfloat16 else torch.int32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_new_tokens_land_in_their_rows_and_nothing_else_changes(dtype: torch.dtype) -> None:
    g = torch.Generator().manual_seed(0)
    keys, values = torch.randn(2, 64, 3, 20, generator=g).to(dtype)
    before = keys.clone(), values.clone()
    qkv = torch.randn(7, 12, 20, generator=g).to(dtype)
    qkv[2, :, 5] = float("nan")
    k, v = qkv[:, 6:9], qkv[:, 9:]  # strided, as they come out of one product
    places = torch.randperm(64, generator=g)[:7]
    store(k, v, keys, values, places)
    for old, new, cached in zip(before, (k, v), (keys, values), strict=True):
        old[places] = new
        assert torch.equal(bits(cached), bits(old))


def test_tokens_of_another_type_are_cast_once() -> None:
    g = torch.Generator().manual_seed(0)
    k, v = torch.randn(2, 4, 2, 8, generator=g)
    keys, values = torch.zeros(2, 10, 2, 8, dtype=torch.bfloat16)
    store(k, v, keys, values, torch.arange(4))
    assert torch.equal(keys[:4], k.bfloat16())
    assert torch.equal(values[:4], v.bfloat16())


@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("rows", [7, 1])
def test_a_product_is_rotated_and_stored_at_once(normed: bool, rows: int) -> None:
    """rows: of angles, which tokens share in turn."""
    g = torch.Generator().manual_seed(0)
    heads = torch.randn(7, 12, 20, generator=g)
    weights = torch.rand(2, 20, generator=g) if normed else (None, None)
    angles = 5 * torch.rand(rows, 10, generator=g)
    rotation = HeadRotation((6, 3, 3), angles.cos(), angles.sin(), *weights)
    places, found = torch.randperm(30, generator=g)[:7], []
    for version in ("torch", "triton"):
        keys, values = torch.full((2, 30, 3, 20), float("nan"))
        with only(version):
            queries = rotate_store(heads, rotation, keys, values, places)
        found.append((queries, keys[places], values[places]))
        assert int(keys.isnan().all(-1).all(-1).sum()) == 23, "other rows stay as they are"
    for plain, fused in zip(*found, strict=True):
        assert (plain - fused).abs().max() < 2e-6
