"""Products with float16 weights: near the layer they replace, and each row the same bits always."""

import pytest
import torch
from torch import nn

from ttscommon.engine.nn import HalfLinear, halve
from ttscommon.engine.nn.half import missing_rows

pytestmark = pytest.mark.skipif(
    "fbgemm" not in torch.backends.quantized.supported_engines, reason="torch without fbgemm"
)


def layers(inside: int = 48, outside: int = 40) -> tuple[nn.Linear, HalfLinear]:
    linear = nn.Linear(inside, outside)
    return linear, HalfLinear(linear)


@torch.inference_mode()
def test_it_is_the_layer_with_weights_of_float16() -> None:
    linear, half = layers()
    linear.weight.data = linear.weight.half().float()
    x = torch.randn(2, 3, 48)
    torch.testing.assert_close(half(x), linear(x), atol=1e-4, rtol=1e-4)


@torch.inference_mode()
def test_a_row_has_the_same_bits_among_any_number_of_others() -> None:
    _, half = layers()
    x = torch.randn(400, 48)
    whole = half(x)
    assert [n for n in range(1, 400) if not torch.equal(half(x[:n]), whole[:n])] == []
    assert torch.equal(half(x[7:9]), whole[7:9])


@pytest.mark.parametrize("shape", [(1,), (4,), (2, 7), (3, 1, 5)])
@torch.inference_mode()
def test_rows_that_are_added_leave_no_trace(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, half = layers()
    x = torch.randn(*shape, 48)
    expected = half(x)
    monkeypatch.setattr(half, "_missing", tuple(1 + m for m in missing_rows()))
    found = half(x)
    assert found.shape == expected.shape
    torch.testing.assert_close(found, expected)


@torch.inference_mode()
def test_no_rows_give_no_rows() -> None:
    assert layers()[1](torch.empty(0, 48)).shape == (0, 40)


def test_every_linear_layer_of_a_module_is_replaced() -> None:
    module = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 4)))
    assert halve(module)
    assert not [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
