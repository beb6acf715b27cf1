"""Fused parts of a decoder block against plain torch."""

from collections.abc import Iterator

import pytest
import torch
from torch.nn import functional

from ttscommon.engine.kernels.blocks import add_norm, rotate, swiglu
from ttscommon.engine.kernels.choice import only

pytest.importorskip("triton")


@pytest.fixture(autouse=True)
def in_use() -> Iterator[None]:
    """Kernels for processors compute no gradients."""
    with torch.no_grad():
        yield


VERSIONS = ["torch", "triton"]
TYPES = [torch.float32, torch.bfloat16]
# bfloat16 has 8 bits: half of its last one, relative.
TOLERANCE = {torch.float32: (1e-5, 1e-6), torch.bfloat16: (8e-3, 1e-2)}


@pytest.mark.parametrize(
    ("version", "dtype"),
    [*((version, dtype) for version in VERSIONS for dtype in TYPES), ("numba", torch.float32)],
)
@pytest.mark.parametrize("size", [8, 100, 1024])
def test_a_residual_is_added_and_normed(version: str, dtype: torch.dtype, size: int) -> None:
    g = torch.Generator().manual_seed(size)
    x, added = torch.randn(2, 3, 2, size, generator=g).to(dtype)
    weight = torch.rand(size, generator=g).to(dtype)
    with only(version):  # type: ignore[arg-type]
        summed, normed = add_norm(x, added, weight, 1e-6)
        untouched, alone = add_norm(x, None, weight, 1e-6)
    # Triton's interpreter cuts bfloat16 off where a device rounds.
    assert torch.allclose(summed.double(), (x + added).double(), *TOLERANCE[dtype])
    assert torch.equal(untouched, x)
    for of, got in ((x + added, normed), (x, alone)):
        exact = functional.rms_norm(of.double(), (size,), weight.double(), 1e-6)
        assert torch.allclose(got.double(), exact, *TOLERANCE[dtype])


@pytest.mark.parametrize(
    ("version", "dtype"),
    [*((version, dtype) for version in VERSIONS for dtype in TYPES), ("numba", torch.float32)],
)
def test_a_gate_opens_what_rises(version: str, dtype: torch.dtype) -> None:
    gate_up = (3 * torch.randn(3, 2 * 1100, generator=torch.Generator().manual_seed(0))).to(dtype)
    with only(version):  # type: ignore[arg-type]
        out = swiglu(gate_up)
    gate, up = gate_up.double().chunk(2, -1)
    assert out.dtype == dtype
    assert torch.allclose(out.double(), functional.silu(gate) * up, *TOLERANCE[dtype])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("normed", [False, True])
def test_heads_are_normed_and_rotated_out_of_one_product(
    version: str, dtype: torch.dtype, normed: bool
) -> None:
    g = torch.Generator().manual_seed(0)
    qkv = torch.randn(3, 8, 24, generator=g).to(dtype)
    weight = torch.rand(24, generator=g).to(dtype) if normed else None
    angle = 10 * torch.rand(3, 12, generator=g)
    with only(version):  # type: ignore[arg-type]
        out = rotate(qkv[:, 2:5], angle.cos(), angle.sin(), weight)
    x = qkv[:, 2:5].double()
    if weight is not None:
        x = functional.rms_norm(x, (24,), weight.double(), 1e-6)
    turned = torch.polar(torch.ones_like(angle.double()), angle.double())[:, None]
    exact = (
        torch.view_as_real(torch.complex(*x.chunk(2, -1)) * turned).transpose(-1, -2).flatten(-2)
    )
    assert torch.allclose(out.double(), exact, *TOLERANCE[dtype])


def test_a_row_on_a_processor_is_its_own() -> None:
    """Its bits do not depend on its neighbours, and what is not finite stays in its row."""
    g = torch.Generator().manual_seed(0)
    x, added = torch.randn(2, 97, 100, generator=g)
    weight = torch.rand(100, generator=g)
    x[5, 3], x[6, 99] = torch.nan, torch.inf
    with only("numba"):
        of_all = (*add_norm(x, added, weight, 1e-6), swiglu(x))
        for row in (0, 4, 5, 6, 96):
            one = slice(row, row + 1)
            alone = (*add_norm(x[one], added[one], weight, 1e-6), swiglu(x[one]))
            for whole, part in zip(of_all, alone, strict=True):
                assert torch.equal(whole[one].nan_to_num(7.0), part.nan_to_num(7.0))
    ill = torch.tensor([row in (5, 6) for row in range(97)])
    assert torch.equal(~of_all[1].isfinite().all(-1), ill)
    assert torch.equal(~of_all[2].isfinite().all(-1), ill)
