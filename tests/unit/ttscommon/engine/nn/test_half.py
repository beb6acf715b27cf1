"""Products with float16 weights: near the layer they replace, and each row the same bits always."""

import pytest
import torch
from structlog.testing import capture_logs
from torch import nn

from ttscommon.engine.kernels import choice
from ttscommon.engine.nn import HalfLinear, halve


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
def test_no_rows_give_no_rows() -> None:
    assert layers()[1](torch.empty(0, 48)).shape == (0, 40)


def test_every_linear_layer_of_a_module_is_replaced() -> None:
    module = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 4)))
    assert halve(module)
    assert not [layer for layer in module.modules() if isinstance(layer, nn.Linear)]


def test_where_nothing_can_be_compiled_layers_stay_and_the_log_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(name: str) -> None:
        raise OSError(f"no LLVM for {name}")

    monkeypatch.setattr(choice, "import_module", broken)
    choice.compiles.cache_clear()
    module = nn.Sequential(nn.Linear(8, 8))
    try:
        with capture_logs() as logs, torch.inference_mode():
            assert not halve(module)
            assert not choice.use_numba(torch.zeros(1))
    finally:
        choice.compiles.cache_clear()
    assert [type(layer) for layer in module] == [nn.Linear]
    assert [log["event"] for log in logs] == ["kernels.not_compiled"]
