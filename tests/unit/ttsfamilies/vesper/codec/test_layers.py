"""The vesper decoder's blocks, compiled for processors, against plain torch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from ttscommon.engine.kernels.choice import Version, only
from ttscommon.engine.nn import halve
from ttsfamilies.vesper.codec.layers import LateConvNeXt, through

SIZE, KERNEL, STEPS, ROWS = 16, 5, 8, 3


@pytest.fixture
def blocks() -> nn.ModuleList:
    torch.manual_seed(0)
    blocks = nn.ModuleList(LateConvNeXt(SIZE, KERNEL, 2, ahead) for ahead in (1, 2, 0)).eval()
    for block in blocks:
        assert isinstance(block, LateConvNeXt)
        nn.init.normal_(block.scale)
    if not halve(blocks):
        pytest.skip("nothing can be compiled")
    return blocks


def run(
    blocks: nn.ModuleList, x: Tensor, tails: Tensor, lengths: Tensor, version: Version = "numba"
) -> tuple[Tensor, Tensor]:
    with torch.inference_mode(), only(version):
        return through(blocks, x, tails, lengths)


def given() -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(1)
    x = torch.randn(ROWS, STEPS, SIZE, generator=g)
    tails = torch.randn(ROWS, 3, KERNEL - 1, SIZE, generator=g)
    return x, tails, torch.tensor([STEPS, 0, 3])


def test_both_versions_say_the_same(blocks: nn.ModuleList) -> None:
    plain = run(blocks, *given(), version="torch")
    for got, expected in zip(run(blocks, *given()), plain, strict=True):
        torch.testing.assert_close(got, expected, rtol=2e-6, atol=1e-5)


def test_a_row_has_the_same_bits_alone_and_in_chunks(blocks: nn.ModuleList) -> None:
    x, tails, lengths = given()
    whole, ends = run(blocks, x, tails, lengths)
    early, between = run(blocks, x[:1, :3], tails[:1], torch.tensor([3]))
    late, after = run(blocks, x[:1, 3:], between, torch.tensor([STEPS - 3]))
    assert torch.equal(torch.cat((early, late), 1), whole[:1])
    assert torch.equal(after, ends[:1])
    assert torch.equal(ends[1], tails[1])


def test_what_is_not_a_number_stays_in_its_row(blocks: nn.ModuleList) -> None:
    x, tails, lengths = given()
    expected, ends = run(blocks, x, tails, lengths)
    x[1] = torch.nan
    got, after = run(blocks, x, tails, lengths)
    assert got[1].isnan().all()
    assert torch.equal(got[[0, 2]], expected[[0, 2]])
    assert torch.equal(after[[0, 2]], ends[[0, 2]])
