"""The parts of a ConvNeXt block, compiled for processors, against plain torch."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from ttscommon.engine.kernels.choice import only
from ttscommon.engine.kernels.convnext import add_scaled, gelu, mix_norm

KERNEL, SIZE = 7, 37


def parts() -> dict[str, Callable[[Tensor], Tensor]]:
    """By name; each of [batch, KERNEL - 1 + steps, SIZE]."""
    torch.manual_seed(0)
    convolution = nn.Conv1d(SIZE, SIZE, KERNEL, groups=SIZE).eval()
    norm, scale = nn.LayerNorm(SIZE), torch.rand(SIZE)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    return {
        "mix_norm": lambda x: mix_norm(x, convolution, norm),
        "gelu": lambda x: gelu(4 * x),
        "add_scaled": lambda x: add_scaled(x, 2, scale, x[:, KERNEL - 1 :].cos()),
    }


@pytest.fixture
def x() -> Tensor:
    return torch.randn(3, KERNEL - 1 + 5, SIZE, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", parts())
def test_both_versions_say_the_same(name: str, x: Tensor) -> None:
    part = parts()[name]
    with torch.inference_mode():
        with only("torch"):
            expected = part(x)
        with only("numba"):
            got = part(x)
    torch.testing.assert_close(got, expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name", parts())
def test_a_row_has_the_same_bits_in_any_company(name: str, x: Tensor) -> None:
    part = parts()[name]
    with torch.inference_mode(), only("numba"):
        together = part(x)
        assert torch.equal(part(x[:1]), together[:1])
        assert torch.equal(part(torch.cat((x[:1], 9 * x[1:])))[0], together[0])


@pytest.mark.parametrize("name", parts())
def test_a_step_has_the_same_bits_in_any_chunk(name: str, x: Tensor) -> None:
    part = parts()[name]
    with torch.inference_mode(), only("numba"):
        whole, late = part(x), part(x[:, 3:])
    assert torch.equal(late, whole[:, -late.shape[1] :])


@pytest.mark.parametrize("name", parts())
def test_what_is_not_a_number_stays_in_its_row(name: str, x: Tensor) -> None:
    part, broken = parts()[name], x.clone()
    broken[1] = torch.nan
    with torch.inference_mode(), only("numba"):
        expected, got = part(x), part(broken)
    assert got[1].isnan().all()
    assert torch.equal(got[[0, 2]], expected[[0, 2]])


def test_far_numbers_are_gated_wholly() -> None:
    with torch.inference_mode(), only("numba"):
        got = gelu(torch.tensor([[-1e4, -30.0, 0.0, 30.0, 1e4]]))
    expected = torch.tensor([[0.0, 0.0, 0.0, 30.0, 1e4]])
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-3)


def test_gradients_go_through_plain_torch(x: Tensor) -> None:
    x.requires_grad_()
    for part in parts().values():
        assert part(x).requires_grad
