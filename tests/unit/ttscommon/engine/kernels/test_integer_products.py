"""Products of whole numbers against exact ones, and the bits of their rows."""

import platform
import re
from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from ttscommon.engine.kernels.integer_products_numba import (
    LARGEST,
    byte_product_of,
    integer_product_of,
    integers_of,
)
from ttscommon.engine.kernels.vectors_numba import COLUMNS

Floats = NDArray[np.float32]

pytestmark = pytest.mark.usefixtures("vectors")


def drawn(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def multiplied(x: Floats, weight: Floats, bias: Floats, *, narrow: bool = False) -> Floats:
    product = integers_of(weight, bias, narrow=narrow)
    out = np.full((len(x), len(product.bias)), np.nan, np.float32)
    multiply = byte_product_of if narrow else integer_product_of
    multiply(x, product, out)
    assert out.shape[1] == -(-len(weight) // COLUMNS) * COLUMNS
    few = np.full((len(x), len(weight)), np.nan, np.float32)
    multiply(x, product, few)
    np.testing.assert_array_equal(few, out[:, : len(weight)])
    return few


@pytest.mark.parametrize(("narrow", "error"), [(False, 4e-4), (True, 1.2e-2)])
@pytest.mark.parametrize(("outer", "inner"), [(64, 32), (4, 7), (37, 33), (16, 1), (100, 300)])
def test_every_number_of_rows_and_outputs_is_multiplied(
    outer: int, inner: int, narrow: bool, error: float
) -> None:
    weight, bias = drawn(outer, inner), drawn(outer, seed=1)
    for rows in (*range(1, 20), 131):
        x = drawn(rows, inner, seed=rows)
        exact = x.astype(np.float64) @ weight.T.astype(np.float64) + bias
        got = multiplied(x, weight, bias, narrow=narrow)
        assert np.abs(got - exact).max() < 5 * error * np.sqrt(inner)
        assert (got - exact).std() <= error * exact.std()


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("inner", [5, 910])
def test_a_row_has_the_same_bits_among_any_others(inner: int, narrow: bool) -> None:
    weight, bias, x = drawn(90, inner), drawn(90, seed=1), drawn(50, inner, seed=2)
    whole = multiplied(x, weight, bias, narrow=narrow)
    for rows in range(1, 50):
        found = multiplied(x[:rows], weight, bias, narrow=narrow)
        np.testing.assert_array_equal(found, whole[:rows])


@pytest.mark.parametrize("inner", [128, 768])
def test_no_sum_overflows_however_alike_the_numbers_are(inner: int) -> None:
    weight, x = np.full((16, inner), 0.7, np.float32), np.full((7, inner), -3.0, np.float32)
    np.testing.assert_allclose(multiplied(x, weight, weight[:, 0]), 0.7 - 2.1 * inner, rtol=1e-3)
    sums = np.abs(integers_of(weight, weight[:, 0]).weight.astype(np.int64)).sum((1, 3))
    assert sums.max() * LARGEST * 128 // min(inner, 128) <= (2**31 - 1) * (inner // 128)


def test_what_is_not_a_number_stays_in_its_row() -> None:
    weight, bias, x = drawn(20, 8), drawn(20, seed=1), drawn(9, 8)
    expected = multiplied(x, weight, bias)
    for wrong in (np.nan, np.inf):
        x[4, 3] = wrong
        got = multiplied(x, weight, bias)
        assert np.isnan(got[4]).all()
        others = [row for row in range(9) if row != 4]
        np.testing.assert_array_equal(got[others], expected[others])


@pytest.mark.parametrize("size", [0.0, 1e-38, 1e-30, 1e30])
def test_rows_of_any_size_are_multiplied(size: float) -> None:
    weight, x = drawn(16, 12), drawn(3, 12, seed=1) * np.float32(size)
    exact = x.astype(np.float64) @ weight.T.astype(np.float64)
    got = multiplied(x, weight, np.zeros(16, np.float32))
    assert np.abs(got - exact).max() <= 5e-3 * np.abs(exact).max() + 1e-33


@pytest.mark.parametrize("narrow", [False, True])
def test_numbers_are_rounded_as_they_are_said_to_be(narrow: bool) -> None:
    """Exact sums of so many inputs, added up in float32; so it is on any machine."""
    weight, bias, x = drawn(144, 300), drawn(144, seed=1), drawn(11, 300, seed=2)
    product = integers_of(weight, bias, narrow=narrow)
    held = product.weight.transpose(0, 2, 1, 3).reshape(144, -1).astype(np.int64)
    largest = np.abs(x).max(1, keepdims=True)
    whole = np.rint(x * (np.float32(LARGEST) / largest)).astype(np.int64)
    sums = np.zeros((11, 144), np.float32)
    for at in range(0, 300, 128):
        sums += (whole[:, at : at + 128] @ held[:, at : at + 128].T).astype(np.float32)
    factors = product.scale * (largest / np.float32(LARGEST))
    exact = sums.astype(np.float64) * factors + product.bias  # rounded once, as in float32
    found = multiplied(x, weight, bias, narrow=narrow)
    np.testing.assert_array_equal(found, exact.astype(np.float32))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x86 has the instruction")
def test_a_product_that_adds_up_is_one_instruction_where_there_is_one() -> None:
    # What is kept of a compiled function does not tell its code.
    multiply: Any = integer_product_of
    anew = numba.njit(multiply.signatures[0])(multiply.py_func)
    (made,) = anew.inspect_asm().values()
    assert "vpdpwssd" in made
    assert not re.search(r"vpmaddwd.*%zmm", made)
