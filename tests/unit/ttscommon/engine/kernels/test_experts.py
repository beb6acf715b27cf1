"""Experts by a grouped kernel, against the plain version."""

import pytest
import torch
from torch import Tensor

from ttscommon.engine.kernels.choice import Version, only
from ttscommon.engine.kernels.experts import mix_experts

pytest.importorskip("triton")

# rows, few, experts, dim, hidden: none a multiple of a tile, and some below one
SHAPES = [(19, 3, 9, 70, 33), (5, 2, 40, 24, 100), (40, 6, 7, 130, 20)]


def drawn(rows: int, few: int, experts: int, dim: int, hidden: int) -> tuple[Tensor, ...]:
    g = torch.Generator().manual_seed(dim)
    x = torch.randn(rows, dim, generator=g)
    chosen = torch.stack([torch.randperm(experts, generator=g)[:few] for _ in range(rows)])
    weights = torch.rand(rows, few, generator=g)
    gate, up = (torch.randn(experts, hidden, dim, generator=g) / dim**0.5 for _ in range(2))
    return x, chosen, weights, gate, up, torch.randn(experts, dim, hidden, generator=g)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("alike", [False, True])
def test_the_grouped_kernel_is_the_plain_version(shape: tuple[int, ...], alike: bool) -> None:
    x, chosen, *others = drawn(*shape)
    if alike:  # all rows choose the same experts
        chosen = chosen[:1].expand_as(chosen).contiguous()
    with only("torch"):
        wanted = mix_experts(x, chosen, *others)
    with only("triton"):
        found = mix_experts(x, chosen, *others)
    torch.testing.assert_close(found, wanted, rtol=0, atol=2e-4)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("version", ["torch", "triton"])
def test_a_row_that_is_not_finite_harms_itself_alone(version: Version) -> None:
    x, chosen, weights, *experts = drawn(*SHAPES[0])
    with only(version):
        before = mix_experts(x, chosen, weights, *experts)
        x[4] = torch.nan
        after = mix_experts(x, chosen, weights, *experts)
    others = torch.arange(len(x)) != 4
    assert torch.equal(after[others], before[others])
    assert not after[4].isfinite().any()
