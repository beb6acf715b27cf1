"""Attention within a frame, against the same in float64, one position behind the other."""

import pytest
import torch
from torch import Tensor

from ttscommon.engine.kernels.choice import only
from ttscommon.engine.nn import dense_attention
from ttsfamilies.base.kernels.attention import attend_frame

pytest.importorskip("triton")

POSITIONS = 6
# heads, KV heads, head dimension
SHAPES = [
    (4, 2, 16),
    *(pytest.param(each, marks=pytest.mark.slow) for each in ((3, 3, 20), (6, 1, 8))),
]


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    count = q.shape[1]
    visible = torch.ones(count, count, dtype=torch.bool).tril()
    return dense_attention(q.double(), k.double(), v.double(), visible)


def drawn(rows: int, heads: int, kv_heads: int, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """As they come out of one product: strided."""
    g = torch.Generator().manual_seed(heads)
    qkv = torch.randn(rows, POSITIONS, heads + 2 * kv_heads, dim, generator=g)
    q, k, v = qkv.split((heads, kv_heads, kv_heads), 2)
    return q, k, v


@pytest.mark.parametrize("version", ["torch", "triton"])
@pytest.mark.parametrize("shape", SHAPES)
def test_positions_see_those_before_them_and_no_other_row(
    version: str, shape: tuple[int, int, int]
) -> None:
    q, k, v = drawn(3, *shape)
    keys, values = torch.full((2, 3, POSITIONS, *shape[1:]), torch.nan)
    found, filled = [], 0
    for new in (2, 1, 1, 1, 1):
        part = slice(filled, filled + new)
        with only(version):  # type: ignore[arg-type]
            found.append(attend_frame(q[:, part], k[:, part], v[:, part], keys, values, filled))
        filled += new
    assert (torch.cat(found, 1) - causal(q, k, v)).abs().max() < 1e-5
    assert torch.equal(keys, k)
    assert torch.equal(values, v)


@pytest.mark.parametrize("version", ["torch", "triton"])
def test_a_row_that_is_not_finite_stays_alone(version: str) -> None:
    q, k, v = drawn(3, 4, 2, 16)
    k[1, 2], v[1, 3] = torch.nan, torch.nan
    keys, values = torch.full((2, 3, POSITIONS, 2, 16), torch.nan)
    with only(version):  # type: ignore[arg-type]
        out = attend_frame(q, k, v, keys, values, 0)
    assert out[1].isnan().any()
    sound = [0, 2]
    wanted = causal(q[sound], k[sound], v[sound])
    assert (out[sound] - wanted).abs().max() < 1e-5


@pytest.mark.parametrize("version", ["torch", "triton"])
def test_layers_of_one_buffer_are_apart(version: str) -> None:
    q, k, v = drawn(2, 4, 2, 16)
    keys, values = torch.zeros(2, 3, 2, POSITIONS, 2, 16)
    with only(version):  # type: ignore[arg-type]
        attend_frame(q, k, v, keys[1], values[1], 0)
    assert torch.equal(keys[1], k)
    assert not keys[0].any()
    assert not values[2].any()
