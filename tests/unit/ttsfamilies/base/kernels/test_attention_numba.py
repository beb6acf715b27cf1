"""Attention by queries adds up in one order; ../runners/test_kv.py says what it adds up."""

import numpy as np
import pytest
from numpy.typing import NDArray

from ttscommon.engine.kernels.compiled import exp
from ttsfamilies.base.kernels.attention import VECTOR_HEAD as HEAD
from ttsfamilies.base.kernels.attention_numba import attend

Floats = NDArray[np.float32]
_ORDER = 8


def _fused(a: Floats, b: Floats, c: Floats) -> Floats:
    """a * b + c, rounded once, as far as a longer type can tell."""
    long = np.longdouble
    return (a.astype(long) * b.astype(long) + c.astype(long)).astype(np.float32)


def _halved(lanes: Floats) -> np.float32:
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = lanes[:half] + lanes[half:]
    return lanes[0]


def _dot(query: Floats, key: Floats) -> np.float32:
    sums = [np.zeros(_ORDER, np.float32)] * 4
    for index in range(len(query) // _ORDER):
        part = slice(index * _ORDER, (index + 1) * _ORDER)
        sums[index % 4] = _fused(query[part], key[part], sums[index % 4])
    return _halved((sums[0] + sums[1]) + (sums[2] + sums[3]))


def _sum(x: Floats) -> np.float32:
    whole = len(x) // 32 * 32
    total = np.float32(0.0)
    if whole:
        lanes = np.zeros(32, np.float32)
        for block in x[:whole].reshape(-1, 32):
            lanes = lanes + block
        first, second, third, fourth = lanes.reshape(4, _ORDER)
        total = _halved(fourth + (third + (second + first)))
    fours = len(x) // 4 * 4
    if fours > whole:
        few = np.array([total, 0.0, 0.0, 0.0], np.float32)
        for block in x[whole:fours].reshape(-1, 4):
            few = few + block
        total = _halved(few)
    for one in x[fours:]:
        total = total + one
    return total


def _in_order(query: Floats, keys: Floats, values: Floats) -> Floats:
    """One head of one query: [HEAD] over [positions, HEAD]."""
    scale = np.float32(1.0) / np.sqrt(np.float32(HEAD))
    scores = np.array([_dot(query, key) * scale for key in keys], np.float32)
    shares = np.array([exp(one - scores.max()) for one in scores], np.float32)
    mixed = np.zeros(HEAD, np.float32)
    for share, value in zip(shares, values, strict=True):
        mixed = _fused(np.full(HEAD, share), value, mixed)
    return mixed / _sum(shares)


@pytest.mark.parametrize("positions", [1, 3, 4, 31, 32, 33, 36, 71, 130])
def test_a_head_is_added_up_in_this_order_on_any_machine(positions: int) -> None:
    random = np.random.default_rng(positions)
    keys, values = random.standard_normal((2, positions + 9, 2 * HEAD), np.float32)
    rows = random.permutation(positions + 9)[:positions]
    queries = random.standard_normal((1, 2, HEAD), np.float32)
    out = np.empty_like(queries)
    attend(queries, keys, values, rows, np.zeros(1, np.int64), np.array([positions]), 0, 1, out)
    for head in range(2):
        lane = slice(head * HEAD, (head + 1) * HEAD)
        expected = _in_order(queries[0, head], keys[rows, lane], values[rows, lane])
        assert np.array_equal(out[0, head], expected)
