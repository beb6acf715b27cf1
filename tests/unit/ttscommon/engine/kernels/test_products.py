"""Products with narrow weights and of whole numbers against exact ones, and their rows' bits."""

import platform
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numba
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ttscommon.engine.kernels.compiled import compiled, floats
from ttscommon.engine.kernels.integer_products_numba import (
    BYTE_PRODUCT,
    INTEGER_PRODUCT,
    LARGEST,
    IntegerProduct,
    integers_of,
    multiply_rounded,
)
from ttscommon.engine.kernels.products_numba import (
    AnyProduct,
    applied,
    packed,
    packed_brain,
    packed_scaled,
    unpacked,
)
from ttscommon.engine.kernels.vectors_numba import WIDE

Floats = NDArray[np.float32]

pytestmark = pytest.mark.usefixtures("vectors")


def brain(weight: Floats, bias: Floats) -> AnyProduct:
    return packed_brain(torch.from_numpy(weight).bfloat16().view(torch.int16).numpy(), bias)


# How they are packed, and by how much of an output's largest weight each may be off.
PACKS: dict[str, tuple[Callable[[Floats, Floats], Any], float]] = {
    "float16": (packed, 2.0**-11),
    "bfloat16": (brain, 2.0**-8),
    "int8": (packed_scaled, 0.5 / 127 + 1e-6),
}
# Numbers of rows are whole as well, and with their rounding results are off by so much.
INTEGERS: dict[str, tuple[Callable[[Floats, Floats], Any], float]] = {
    "shorts": (integers_of, 4e-4),
    "bytes": (partial(integers_of, narrow=True), 1.2e-2),
}
of_packs = pytest.mark.parametrize("kind", PACKS)
of_integers = pytest.mark.parametrize("kind", INTEGERS)
of_all = pytest.mark.parametrize("kind", [*PACKS, *INTEGERS])
shapes = pytest.mark.parametrize(
    ("outer", "inner"), [(64, 32), (4, 7), (37, 33), (16, 1), (100, 300)]
)


@compiled(floats(2), INTEGER_PRODUCT, floats(2))
def of_shorts(x: Floats, product: IntegerProduct, out: Floats) -> None:
    multiply_rounded(x, product, out)


@compiled(floats(2), BYTE_PRODUCT, floats(2))
def of_bytes(x: Floats, product: IntegerProduct, out: Floats) -> None:
    multiply_rounded(x, product, out)


def drawn(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def product_of(
    kind: str, weight: Floats, bias: Floats | None = None
) -> AnyProduct | IntegerProduct:
    pack, _ = (PACKS | INTEGERS)[kind]
    return pack(weight, np.zeros(len(weight), np.float32) if bias is None else bias)


def multiplied(x: Floats, product: AnyProduct | IntegerProduct, outer: int) -> Floats:
    out = np.full((len(x), outer), np.nan, np.float32)
    if not isinstance(product, IntegerProduct):
        applied(x, product, out)
        return out
    multiply = of_bytes if product.weight.dtype == np.int8 else of_shorts
    multiply(x, product, out)
    whole = np.full((len(x), len(product.bias)), np.nan, np.float32)  # of all tiles
    multiply(x, product, whole)
    np.testing.assert_array_equal(out, whole[:, :outer])
    return out


@of_packs
@shapes
def test_every_number_of_rows_and_outputs_is_multiplied(kind: str, outer: int, inner: int) -> None:
    weight, bias = drawn(outer, inner), drawn(outer, seed=1)
    product = PACKS[kind][0](weight, bias)
    held = unpacked(product, outer)[0].astype(np.float64)
    for rows in (*range(1, 20), 61):
        x = drawn(rows, inner, seed=rows)
        exact = x.astype(np.float64) @ held.T + bias
        np.testing.assert_allclose(multiplied(x, product, outer), exact, rtol=1e-4, atol=1e-4)


@of_integers
@shapes
def test_whole_numbers_are_near(kind: str, outer: int, inner: int) -> None:
    weight, bias = drawn(outer, inner), drawn(outer, seed=1)
    product, error = product_of(kind, weight, bias), INTEGERS[kind][1]
    for rows in (*range(1, 20), 131):
        x = drawn(rows, inner, seed=rows)
        exact = x.astype(np.float64) @ weight.T.astype(np.float64) + bias
        off = multiplied(x, product, outer) - exact
        assert np.abs(off).max() < 5 * error * np.sqrt(inner)
        assert off.std() <= error * exact.std()


@of_all
@pytest.mark.parametrize("inner", [5, 4000])
def test_a_row_has_the_same_bits_among_any_others(kind: str, inner: int) -> None:
    product, x = product_of(kind, drawn(90, inner)), drawn(50, inner, seed=2)
    whole = multiplied(x, product, 90)
    for rows in range(1, 50):
        np.testing.assert_array_equal(multiplied(x[:rows], product, 90), whole[:rows])


@pytest.mark.parametrize("rows", [12, 25])
def test_sums_are_taken_in_the_order_of_the_inputs(rows: int) -> None:
    """One chain of fused multiplications and additions, which are rounded once each."""
    weight, bias, x = drawn(80, 704) / np.float32(16), drawn(80, seed=1), drawn(rows, 704, seed=2)
    product = packed(weight, bias)
    held = unpacked(product, 80)[0].astype(np.longdouble)
    sums = np.zeros((rows, 80), np.float32)
    for at in range(704):
        sums = (sums + np.outer(x[:, at].astype(np.longdouble), held[:, at])).astype(np.float32)
    np.testing.assert_array_equal(multiplied(x, product, 80), sums + bias)


@of_packs
def test_wide_vectors_have_the_bits_of_narrow_ones(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    product, x = product_of(kind, drawn(200, 300), drawn(200, seed=1)), drawn(23, 300, seed=2)
    found = [multiplied(x[:rows], product, 200) for rows in (11, 23)]
    monkeypatch.setattr(WIDE, "value", 0)
    for one in found:
        np.testing.assert_array_equal(multiplied(x[: len(one)], product, 200), one)


@of_all
def test_what_is_not_a_number_stays_in_its_row(kind: str) -> None:
    product, x = product_of(kind, drawn(20, 8)), drawn(9, 8)
    expected = multiplied(x, product, 20)
    x[4, 3] = np.nan
    got = multiplied(x, product, 20)
    assert np.isnan(got[4]).all()
    np.testing.assert_array_equal(np.delete(got, 4, 0), np.delete(expected, 4, 0))


@of_packs
def test_weights_are_packed_and_back(kind: str) -> None:
    sizes = np.logspace(-2, 3, 21, dtype=np.float32)  # an output's steps are its own
    weight, bias = drawn(21, 6) * sizes[:, None], drawn(21, seed=1)
    weight[3] = 0.0
    pack, close = PACKS[kind]
    found, told = unpacked(pack(weight, bias), 21)
    np.testing.assert_array_equal(told, bias)
    off = np.abs(found - weight).max(1)
    assert (off <= close * np.abs(weight).max(1)).all()
    again, _ = unpacked(pack(found, bias), 21)
    np.testing.assert_allclose(again, found, rtol=1e-6)


@pytest.mark.parametrize("inner", [128, 768])
def test_no_sum_overflows_however_alike_the_numbers_are(inner: int) -> None:
    weight, x = np.full((16, inner), 0.7, np.float32), np.full((7, inner), -3.0, np.float32)
    product = integers_of(weight, weight[:, 0])
    np.testing.assert_allclose(multiplied(x, product, 16), 0.7 - 2.1 * inner, rtol=1e-3)
    sums = np.abs(product.weight.astype(np.int64)).sum((1, 3))
    assert sums.max() * LARGEST * 128 // min(inner, 128) <= (2**31 - 1) * (inner // 128)


@pytest.mark.parametrize("size", [0.0, 1e-38, 1e-30, 1e30, np.inf])
def test_rows_of_any_size_are_multiplied(size: float) -> None:
    weight, x = drawn(16, 12), drawn(3, 12, seed=1) * np.float32(size)
    got = multiplied(x, product_of("shorts", weight), 16)
    if size == np.inf:
        assert np.isnan(got).all()
    else:
        exact = x.astype(np.float64) @ weight.T.astype(np.float64)
        assert np.abs(got - exact).max() <= 5e-3 * np.abs(exact).max() + 1e-33


@of_integers
def test_numbers_are_rounded_as_they_are_said_to_be(kind: str) -> None:
    """Exact sums of so many inputs, added up in float32; so it is on any machine."""
    bias, x = drawn(144, seed=1), drawn(11, 300, seed=2)
    product = INTEGERS[kind][0](drawn(144, 300), bias)
    held = product.weight.transpose(0, 2, 1, 3).reshape(144, -1).astype(np.int64)
    largest = np.abs(x).max(1, keepdims=True)
    whole = np.rint(x * (np.float32(LARGEST) / largest)).astype(np.int64)
    sums = np.zeros((11, 144), np.float32)
    for at in range(0, 300, 128):
        sums += (whole[:, at : at + 128] @ held[:, at : at + 128].T).astype(np.float32)
    factors = product.scale * (largest / np.float32(LARGEST))
    exact = sums.astype(np.float64) * factors + product.bias  # rounded once, as in float32
    np.testing.assert_array_equal(multiplied(x, product, 144), exact.astype(np.float32))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x86 has the instruction")
def test_a_product_that_adds_up_is_one_instruction_where_there_is_one() -> None:
    # What is kept of a compiled function does not tell its code.
    multiply: Any = of_shorts
    anew = numba.njit(multiply.signatures[0])(multiply.py_func)
    (made,) = anew.inspect_asm().values()
    assert "vpdpwssd" in made
    assert not re.search(r"vpmaddwd.*%zmm", made)
