"""Products with float16 weights against torch's, and the bits of their rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ttscommon.engine.kernels.products_numba import Product, packed, product_of, unpacked

Floats = NDArray[np.float32]


def drawn(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def multiplied(x: Floats, product: Product, outer: int) -> Floats:
    out = np.full((len(x), outer), np.nan, np.float32)
    product_of(x, product, out)
    return out


@pytest.mark.parametrize(("outer", "inner"), [(64, 32), (4, 7), (37, 33), (16, 1), (100, 300)])
def test_every_number_of_rows_and_outputs_is_multiplied(outer: int, inner: int) -> None:
    weight, bias = drawn(outer, inner), drawn(outer, seed=1)
    product, held = packed(weight, bias), weight.astype(np.float16).astype(np.float64)
    for rows in (*range(1, 20), 61):
        x = drawn(rows, inner, seed=rows)
        exact = x.astype(np.float64) @ held.T + bias
        np.testing.assert_allclose(multiplied(x, product, outer), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("inner", [5, 4000])
def test_a_row_has_the_same_bits_among_any_others(inner: int) -> None:
    product, x = packed(drawn(40, inner)), drawn(50, inner, seed=2)
    whole = multiplied(x, product, 40)
    for rows in range(1, 50):
        np.testing.assert_array_equal(multiplied(x[:rows], product, 40), whole[:rows])


def test_sums_are_taken_in_the_order_of_the_inputs() -> None:
    """As fbgemm takes them, whose bits earlier releases spoke."""
    if "fbgemm" not in torch.backends.quantized.supported_engines:
        pytest.skip("torch was built without fbgemm")
    weight, bias, x = drawn(48, 704) / np.float32(16), drawn(48, seed=1), drawn(12, 704, seed=2)
    halves = torch.ops.quantized.linear_prepack_fp16(
        torch.from_numpy(weight), torch.from_numpy(bias)
    )
    expected = torch.ops.quantized.linear_dynamic_fp16(torch.from_numpy(x), halves).numpy()
    np.testing.assert_array_equal(multiplied(x, packed(weight, bias), 48), expected)


def test_what_is_not_a_number_stays_in_its_row() -> None:
    product, x = packed(drawn(20, 8)), drawn(9, 8)
    expected = multiplied(x, product, 20)
    x[4] = np.nan
    got = multiplied(x, product, 20)
    assert np.isnan(got[4]).all()
    np.testing.assert_array_equal(np.delete(got, 4, 0), np.delete(expected, 4, 0))


def test_weights_are_packed_as_float16_and_back() -> None:
    weight, bias = drawn(21, 6), drawn(21, seed=1)
    for found, given in zip(unpacked(packed(weight, bias), 21), (weight, bias), strict=True):
        expected = given.astype(np.float16).astype(np.float32) if given.ndim == 2 else given
        np.testing.assert_array_equal(found, expected)
