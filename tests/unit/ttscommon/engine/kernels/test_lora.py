"""Low-rank products of rows with adapters of their own, against the same row by row in float64."""

import pytest
import torch
from torch import Tensor

from ttscommon.engine.kernels.choice import Version, only
from ttscommon.engine.kernels.lora import add_lora

pytest.importorskip("triton")

# inputs, rank, outputs: none of them a multiple of a tile, and some below one
SHAPES = [(160, 20, 70), (48, 3, 33), (128, 16, 64)]
SLOTS = 3


def drawn(inputs: int, rank: int, outputs: int, rows: int = 19) -> tuple[Tensor, ...]:
    g = torch.Generator().manual_seed(inputs)
    x, out = torch.randn(rows, inputs, generator=g), torch.randn(rows, outputs, generator=g)
    a = torch.randn(SLOTS, rank, inputs, generator=g) / inputs**0.5
    b = torch.randn(SLOTS, outputs, rank, generator=g)
    return x, out, torch.arange(rows) % (SLOTS + 1), a, b


@pytest.mark.parametrize("version", ["torch", "triton"])
@pytest.mark.parametrize("shape", SHAPES)
def test_each_row_has_the_product_of_its_own_adapter(
    version: Version, shape: tuple[int, int, int]
) -> None:
    x, out, ids, a, b = drawn(*shape)
    wanted = out.double()
    for row, known in enumerate(ids.tolist()):
        if known:
            low = a[known - 1].double() @ x[row].double()
            wanted[row] += b[known - 1].double() @ low
    before = out.clone()
    with only(version):
        add_lora(x, out, ids, a, b)
    assert (out - wanted).abs().max() < 1e-4
    assert torch.equal(out[ids == 0], before[ids == 0])


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("version", ["torch", "triton"])
def test_a_slot_that_is_not_finite_harms_its_own_rows_alone(version: Version) -> None:
    x, out, ids, a, b = drawn(*SHAPES[0])
    a[1], x[5] = torch.nan, torch.inf
    with only(version):
        add_lora(x, out, ids, a, b)
    harmed = (ids == 2) | (torch.arange(len(ids)) == 5)
    assert out[~harmed].isfinite().all()
    assert not out[ids == 2].isfinite().any()


@pytest.mark.parametrize("version", ["torch", "triton"])
def test_narrow_weights_are_summed_in_float32(version: Version) -> None:
    # float16 stands for bfloat16, whose products Triton's interpreter cannot compute.
    x, out, ids, a, b = (t.half() if t.is_floating_point() else t for t in drawn(*SHAPES[2]))
    exact = [t.float() if t.is_floating_point() else t.clone() for t in (x, out, ids, a, b)]
    with only("torch"):
        add_lora(*exact)
    with only(version):
        add_lora(x, out, ids, a, b)
    assert (out.float() - exact[1]).abs().max() <= exact[1].abs().max() * 2**-8
