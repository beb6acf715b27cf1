"""Products with narrow weights against torch's, and the bits of their rows."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ttscommon.engine.kernels.products_numba import (
    AnyProduct,
    applied,
    packed,
    packed_brain,
    packed_scaled,
    unpacked,
)
from ttscommon.engine.kernels.vectors_numba import narrow

Floats = NDArray[np.float32]

pytestmark = pytest.mark.usefixtures("vectors")


def brain(weight: Floats, bias: Floats | None = None) -> AnyProduct:
    return packed_brain(torch.from_numpy(weight).bfloat16().view(torch.int16).numpy(), bias)


# How they are packed, and by how much of an output's largest weight each may be off.
PACKS: Mapping[str, tuple[Callable[..., AnyProduct], float]] = {
    "float16": (packed, 2.0**-11),
    "bfloat16": (brain, 2.0**-8),
    "int8": (packed_scaled, 0.5 / 127 + 1e-6),
}
of_all = pytest.mark.parametrize("kind", PACKS)


def drawn(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def multiplied(x: Floats, product: AnyProduct, outer: int) -> Floats:
    out = np.full((len(x), outer), np.nan, np.float32)
    applied(x, product, out)
    return out


@of_all
@pytest.mark.parametrize(("outer", "inner"), [(64, 32), (4, 7), (37, 33), (16, 1), (100, 300)])
def test_every_number_of_rows_and_outputs_is_multiplied(kind: str, outer: int, inner: int) -> None:
    weight, bias = drawn(outer, inner), drawn(outer, seed=1)
    product = PACKS[kind][0](weight, bias)
    held = unpacked(product, outer)[0].astype(np.float64)
    for rows in (*range(1, 20), 61):
        x = drawn(rows, inner, seed=rows)
        exact = x.astype(np.float64) @ held.T + bias
        np.testing.assert_allclose(multiplied(x, product, outer), exact, rtol=1e-4, atol=1e-4)


@of_all
@pytest.mark.parametrize("inner", [5, 4000])
def test_a_row_has_the_same_bits_among_any_others(kind: str, inner: int) -> None:
    product, x = PACKS[kind][0](drawn(40, inner)), drawn(50, inner, seed=2)
    whole = multiplied(x, product, 40)
    for rows in range(1, 50):
        np.testing.assert_array_equal(multiplied(x[:rows], product, 40), whole[:rows])


def test_sums_are_taken_in_the_order_of_the_inputs() -> None:
    """One chain of fused multiplications and additions, which are rounded once each."""
    weight, bias, x = drawn(48, 704) / np.float32(16), drawn(48, seed=1), drawn(12, 704, seed=2)
    product = packed(weight, bias)
    held = unpacked(product, 48)[0].astype(np.longdouble)
    sums = np.zeros((12, 48), np.float32)
    for at in range(704):
        sums = (sums + np.outer(x[:, at].astype(np.longdouble), held[:, at])).astype(np.float32)
    np.testing.assert_array_equal(multiplied(x, product, 48), sums + bias)


@of_all
def test_wide_vectors_have_the_bits_of_narrow_ones(kind: str) -> None:
    product, x = PACKS[kind][0](drawn(200, 300), drawn(200, seed=1)), drawn(23, 300, seed=2)
    found = multiplied(x, product, 200)
    with narrow():
        np.testing.assert_array_equal(multiplied(x, product, 200), found)


@of_all
def test_what_is_not_a_number_stays_in_its_row(kind: str) -> None:
    product, x = PACKS[kind][0](drawn(20, 8)), drawn(9, 8)
    expected = multiplied(x, product, 20)
    x[4] = np.nan
    got = multiplied(x, product, 20)
    assert np.isnan(got[4]).all()
    np.testing.assert_array_equal(np.delete(got, 4, 0), np.delete(expected, 4, 0))


@of_all
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
