"""Fused parts of a decoder block on a processor, against what they are.

Triton's are held to torch's in tests/unit/ttsfamilies/base/kernels.
"""

from collections.abc import Iterator

import pytest
import torch
from torch.nn import functional

from ttscommon.engine.kernels.blocks import add_norm, gelu, swiglu
from ttscommon.engine.kernels.choice import Version, only


@pytest.fixture(autouse=True)
def in_use() -> Iterator[None]:
    """Kernels for processors compute no gradients."""
    with torch.no_grad():
        yield


of_both = pytest.mark.parametrize("version", ["torch", "numba"])


@of_both
@pytest.mark.parametrize("size", [8, 100, 1024])
def test_a_residual_is_added_and_normed(version: Version, size: int) -> None:
    g = torch.Generator().manual_seed(size)
    x, added = torch.randn(2, 3, 2, size, generator=g)
    weight = torch.rand(size, generator=g)
    with only(version):
        summed, normed = add_norm(x, added, weight, 1e-6)
        untouched, alone = add_norm(x, None, weight, 1e-6)
    assert torch.equal(untouched, x)
    for of, got in ((x + added, normed), (x, alone)):
        exact = functional.rms_norm(of.double(), (size,), weight.double(), 1e-6)
        assert torch.allclose(got.double(), exact, 1e-5, 1e-6)
    assert torch.equal(summed, x + added)


@of_both
def test_a_gate_opens_what_rises(version: Version) -> None:
    gate_up = 3 * torch.randn(3, 2 * 1100, generator=torch.Generator().manual_seed(0))
    with only(version):
        out = swiglu(gate_up)
    gate, up = gate_up.double().chunk(2, -1)
    assert torch.allclose(out.double(), functional.silu(gate) * up, 1e-5, 1e-6)


@of_both
def test_the_exact_gelu(version: Version) -> None:
    x = torch.cat((torch.linspace(-12, 12, 2000), torch.tensor([0.0, torch.inf]))).view(2, 1, 1001)
    with only(version):
        out = gelu(x[..., ::7])
    assert torch.allclose(out.double(), functional.gelu(x[..., ::7].double()), 1e-6, 2e-6)


def test_a_row_on_a_processor_is_its_own() -> None:
    """Its bits do not depend on its neighbours, and what is not finite stays in its row."""
    g = torch.Generator().manual_seed(0)
    x, added = torch.randn(2, 97, 100, generator=g)
    weight = torch.rand(100, generator=g)
    x[5, 3], x[6, 99] = torch.nan, torch.inf
    with only("numba"):
        of_all = (*add_norm(x, added, weight, 1e-6), swiglu(x), gelu(x))
        for row in (0, 4, 5, 6, 96):
            one = slice(row, row + 1)
            alone = (*add_norm(x[one], added[one], weight, 1e-6), swiglu(x[one]), gelu(x[one]))
            for whole, part in zip(of_all, alone, strict=True):
                assert torch.equal(whole[one].nan_to_num(7.0), part.nan_to_num(7.0))
    ill = torch.tensor([row in (5, 6) for row in range(97)])
    assert torch.equal(~of_all[1].isfinite().all(-1), ill)
    assert torch.equal(~of_all[2].isfinite().all(-1), ill)
    assert torch.equal(~of_all[3].isfinite().all(-1), ill)
