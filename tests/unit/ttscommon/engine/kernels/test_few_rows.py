"""Products with what stands around them, in Triton's interpreter, against their twins."""

from random import Random

import pytest
import torch
from torch import Generator, Tensor

from tests.random_cases import cases, drawn
from ttscommon.engine.kernels.choice import only
from ttscommon.engine.kernels.few_rows import multiply

pytest.importorskip("triton")

# float16 stands for bfloat16, whose products Triton's interpreter cannot compute.
TYPES = {torch.float32: 5e-6, torch.float16: 5e-3}


def of(r: Random, g: Generator, dtype: torch.dtype) -> dict[str, Tensor | bool | float | None]:
    rows, inputs, outputs = r.choice((1, 2, 5, 17, 70)), r.choice((8, 48, 200)), r.randint(1, 40)
    gated = r.random() < 0.4

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=g).to(dtype)

    wide = outputs * (1 + gated)
    weight, scales = draw(wide, inputs) / inputs**0.5, None
    if r.random() < 0.3:
        scales = weight.abs().amax(1).float() / 448 + 1e-6
        weight = (weight.float() / scales[:, None]).to(torch.float8_e4m3fn)
    ids = torch.randint(30, (rows,), generator=g) if r.random() < 0.3 else None
    return {
        "x": draw(rows, inputs) if ids is None else draw(30, inputs),
        "ids": ids,
        "weight": weight,
        "scales": scales,
        "bias": r.choice((None, draw(wide))),
        "norm": r.choice((None, draw(inputs).abs())),
        "eps": 1e-6,
        "gated": gated,
        "added": (added := r.choice((None, draw(rows, outputs)))),
        "factors": None if added is None else r.choice((None, draw(outputs))),
    }


@pytest.mark.parametrize("dtype", TYPES)
@drawn(3)
def test_a_product_is_its_twin_whatever_stands_around_it(dtype: torch.dtype, count: int) -> None:
    for r, g in cases(count):
        told = of(r, g, dtype)
        kind = r.choice((None, torch.float32))
        with only("torch"):
            plain = multiply(**told, dtype=kind)  # type: ignore[arg-type]
        with only("triton"):
            fused = multiply(**told, dtype=kind)  # type: ignore[arg-type]
        assert fused.dtype == plain.dtype == (kind or dtype)
        close = TYPES[dtype]
        assert torch.allclose(fused, plain, rtol=close, atol=close), told


def test_a_row_that_is_not_finite_stays_alone() -> None:
    x, weight = torch.ones(3, 40), torch.ones(5, 40)
    x[1] = torch.nan
    with only("triton"):
        found = multiply(x, weight, norm=torch.ones(40), eps=1e-6, added=torch.ones(3, 5))
    assert found.isnan().any(1).tolist() == [False, True, False]
