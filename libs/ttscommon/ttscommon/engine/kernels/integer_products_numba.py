"""Products of whole numbers for processors, to be called from compiled loops.

A processor with AVX2 multiplies twice as many pairs of 16-bit numbers at a time as of float32.
Each output of a layer has a scale for its weights and each row one for its numbers, 13 bits and 14
of them; sums are exact, so a row has the same bits in any order, among any number of others and on
any machine. Sums of `_TOGETHER` inputs fit 32 bits and are added up in float32.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttscommon.engine.kernels.compiled import (
    as_float,
    compiled,
    floats,
    intrinsic,
    ir,
    part,
    tuple_of,
    types,
)

Floats = NDArray[np.float32]
Shorts = NDArray[np.int16]

COLUMNS: Final = 16
"""Of a tile."""
LARGEST: Final = 16383
"""Of a row's numbers."""
_LARGEST: Final = np.float32(LARGEST)
_ONE: Final = np.float32(1.0)
_NOT_A_NUMBER: Final = np.float32(np.nan)
_ROUNDING: Final = np.float32(3 << 22)
_NO_SIGN: Final = np.int32(0x7FFFFFFF)
_INFINITE: Final = np.int32(0x7F800000)
_LEAST: Final = np.int32(0x0C000000)  # 2 to the -103, of which no factor is infinite
_LANES: Final = 8
_VECTORS: Final = COLUMNS // _LANES
_ROWS: Final = 6
_MOST_SUM: Final = 2**31 - 1
_MOST_WEIGHT: Final = 2**13 - 1
_TOGETHER: Final = 128
"""Inputs whose products are added up as whole numbers."""
# Rows whose numbers stay in the first cache beside a tile.
_CACHED: Final = 1 << 14

_INDEX: Final = ir.IntType(64)
_PAIR: Final = ir.IntType(32)
_PAIRS: Final = ir.VectorType(_PAIR, _LANES)
_SHORTS: Final = ir.VectorType(ir.IntType(16), 2 * _LANES)
_WIDE: Final = ir.VectorType(_PAIR, 2 * _LANES)
_FLOATS: Final = ir.VectorType(ir.FloatType(), _LANES)


class IntegerProduct(NamedTuple):
    """A linear layer. weight: [tiles, pairs of inputs, COLUMNS, 2]; scale, bias: [tiles *
    COLUMNS]; zeros behind the layer's last input and output.
    """

    weight: Shorts
    scale: Floats
    bias: Floats


def shorts(dimensions: int) -> Any:
    """An array of int16, C-contiguous."""
    return types.Array(types.int16, dimensions, "C")


INTEGER_PRODUCT: Final = tuple_of(IntegerProduct, shorts(4), floats(1), floats(1))


def integers_of(weight: Floats, bias: Floats) -> IntegerProduct:
    """Of a weight [out, in] and a bias [out]."""
    outer, inner = weight.shape
    tiles, pairs = -(-outer // COLUMNS), -(-inner // 2)
    wide = np.zeros((tiles * COLUMNS, pairs * 2), np.float32)
    wide[:outer, :inner] = weight
    scale = _scales(wide)
    whole = np.rint(wide / scale[:, None]).astype(np.int16)
    tiled = whole.reshape(tiles, COLUMNS, pairs, 2).transpose(0, 2, 1, 3)
    biases = np.zeros(tiles * COLUMNS, np.float32)
    biases[:outer] = bias
    return IntegerProduct(np.ascontiguousarray(tiled), scale, biases)


def _scales(wide: Floats) -> Floats:
    """The least of each output with which no sum overflows."""
    outer, inner = wide.shape
    magnitude = np.abs(wide)
    padded = np.pad(magnitude, ((0, 0), (0, -inner % _TOGETHER)))
    sums = padded.reshape(outer, -1, _TOGETHER).sum(2).max(1)
    room = _MOST_SUM / LARGEST - _TOGETHER  # each may be rounded up
    found = np.maximum(magnitude.max(1) / _MOST_WEIGHT, sums / room)
    return np.where(found > 0, found, 1.0).astype(np.float32)


@intrinsic
def _bits_of_float(_context: Any, value: Any) -> Any:
    """A float32's bits as an int32."""

    def code(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _PAIR)

    return types.int32(types.float32), code


# As compiled code calls it.
_as_int: Final[Any] = _bits_of_float


@part
def shortened(x: Floats, out: Shorts) -> np.float32:
    """One row as whole numbers; returns what 1 stands for, which is NaN if one is not finite."""
    most = np.int32(0)
    for at in range(len(x)):
        most = max(most, _as_int(x[at]) & _NO_SIGN)
    if most >= _INFINITE:
        out[:] = 0
        return _NOT_A_NUMBER
    largest = as_float(most) if most > _LEAST else _ONE
    factor = _LARGEST / largest
    for at in range(len(x)):  # the last bits of such a sum are the rounded number
        out[at] = np.int16(_as_int(x[at] * factor + _ROUNDING))
    return largest / _LARGEST


def _tile(rows: int) -> Any:
    """The code of so many rows of a tile: `out[row : row + rows, at : at + COLUMNS]` becomes their
    part of the product.
    """

    @intrinsic
    def multiply(
        _context: Any, x: Any, scales: Any, row: Any, product: Any, tile: Any, out: Any, at: Any
    ) -> Any:
        def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            return _Tile(context, builder, signature.args, given).summed(rows)

        return types.void(x, scales, row, product, tile, out, at), code

    return multiply


class _Tile:
    """Writes the code of a tile."""

    def __init__(self, context: Any, builder: Any, kinds: Any, given: Any) -> None:
        self._context, self._builder = context, builder
        x, scales, self._row, product, tile, out, self._at = given
        weight, scale, bias = (builder.extract_value(product, field) for field in range(3))
        pick = {0: x, 1: scales, 5: out}
        self._x, self._scales, self._out = (self._array(kinds[i], v) for i, v in pick.items())
        self._weight = self._array(shorts(4), weight)
        self._pairs = builder.extract_value(self._weight.shape, 1)
        self._inner = builder.extract_value(self._x.shape, 1)
        self._outer = builder.extract_value(self._out.shape, 1)
        columns = builder.mul(tile, _INDEX(COLUMNS))
        self._scale = builder.gep(self._array(floats(1), scale).data, [columns])
        self._bias = builder.gep(self._array(floats(1), bias).data, [columns])
        first = builder.mul(tile, builder.mul(self._pairs, _INDEX(2 * COLUMNS)))
        self._first = builder.gep(self._weight.data, [first])

    def _array(self, kind: Any, value: Any) -> Any:
        return self._context.make_array(kind)(self._context, self._builder, value)

    def summed(self, rows: int) -> Any:
        builder = self._builder
        nothing = ir.Constant(_FLOATS, [0.0] * _LANES)
        before, outer = builder.block, builder.append_basic_block("parts")
        inner, added = builder.append_basic_block("pairs"), builder.append_basic_block("added")
        done = builder.append_basic_block("summed")
        builder.branch(outer)
        builder.position_at_end(outer)
        begin = builder.phi(_INDEX)
        begin.add_incoming(_INDEX(0), before)
        totals = [builder.phi(_FLOATS) for _ in range(rows * _VECTORS)]
        end = builder.add(begin, _INDEX(_TOGETHER // 2))
        end = builder.select(builder.icmp_signed("<", end, self._pairs), end, self._pairs)
        builder.branch(inner)
        builder.position_at_end(inner)
        sums = self._of_pairs(rows, begin, end, outer, added)
        builder.position_at_end(added)
        more = [
            builder.fadd(t, builder.sitofp(s, _FLOATS)) for t, s in zip(totals, sums, strict=True)
        ]
        begin.add_incoming(end, added)
        for total, one in zip(totals, more, strict=True):
            total.add_incoming(nothing, before)
            total.add_incoming(one, added)
        builder.cbranch(builder.icmp_signed("<", end, self._pairs), outer, done)
        builder.position_at_end(done)
        for row in range(rows):
            self._store(row, more[row * _VECTORS : (row + 1) * _VECTORS])
        return self._context.get_dummy_value()

    def _of_pairs(self, rows: int, begin: Any, end: Any, before: Any, behind: Any) -> list[Any]:
        """The loop over pairs of inputs from `begin` to `end`, in the block it stands in."""
        builder, loop = self._builder, self._builder.block
        k, nothing = builder.phi(_INDEX), ir.Constant(_PAIRS, [0] * _LANES)
        k.add_incoming(begin, before)
        sums = [builder.phi(_PAIRS) for _ in range(rows * _VECTORS)]
        columns = self._columns(k)
        found = []
        for row in range(rows):
            one = self._everywhere(row, k)
            for column, old in zip(columns, sums[row * _VECTORS :], strict=False):
                found.append(builder.add(old, self._paired(one, column)))
        after = builder.add(k, _INDEX(1))
        k.add_incoming(after, loop)
        for old, new in zip(sums, found, strict=True):
            old.add_incoming(nothing, before)
            old.add_incoming(new, loop)
        builder.cbranch(builder.icmp_signed("<", after, end), loop, behind)
        return found

    def _columns(self, k: Any) -> list[Any]:
        """A pair of inputs' weights."""
        builder = self._builder
        first = builder.mul(k, _INDEX(2 * COLUMNS))
        found = []
        for vector in range(_VECTORS):
            at = builder.gep(self._first, [builder.add(first, _INDEX(vector * 2 * _LANES))])
            found.append(builder.load(builder.bitcast(at, _SHORTS.as_pointer()), align=2))
        return found

    def _everywhere(self, row: int, k: Any) -> Any:
        builder = self._builder
        begin = builder.mul(builder.add(self._row, _INDEX(row)), self._inner)
        at = builder.gep(self._x.data, [builder.add(begin, builder.mul(k, _INDEX(2)))])
        pair = builder.load(builder.bitcast(at, _PAIR.as_pointer()), align=2)
        alone = builder.insert_element(ir.Constant(_PAIRS, ir.Undefined), pair, _INDEX(0))
        same = ir.Constant(_PAIRS, [0] * _LANES)
        spread = builder.shuffle_vector(alone, ir.Constant(_PAIRS, ir.Undefined), same)
        return builder.bitcast(spread, _SHORTS)

    def _paired(self, one: Any, column: Any) -> Any:
        """Sums of neighbours' products, which compilers know as one instruction of x86."""
        builder = self._builder
        products = builder.mul(builder.sext(one, _WIDE), builder.sext(column, _WIDE))
        nothing = ir.Constant(_WIDE, ir.Undefined)
        even, odd = (
            builder.shuffle_vector(products, nothing, ir.Constant(_PAIRS, list(chosen)))
            for chosen in (range(0, 2 * _LANES, 2), range(1, 2 * _LANES, 2))
        )
        return builder.add(even, odd)

    def _store(self, row: int, sums: list[Any]) -> None:
        builder = self._builder
        place = builder.add(self._row, _INDEX(row))
        scale = builder.load(builder.gep(self._scales.data, [place]))
        alone = builder.insert_element(ir.Constant(_FLOATS, ir.Undefined), scale, _INDEX(0))
        same = ir.Constant(ir.VectorType(_PAIR, _LANES), [0] * _LANES)
        spread = builder.shuffle_vector(alone, ir.Constant(_FLOATS, ir.Undefined), same)
        begin = builder.add(builder.mul(place, self._outer), self._at)
        for vector, total in enumerate(sums):
            scales, biases = (self._vector(data, vector) for data in (self._scale, self._bias))
            value = builder.fadd(builder.fmul(total, builder.fmul(scales, spread)), biases)
            at = builder.gep(self._out.data, [builder.add(begin, _INDEX(vector * _LANES))])
            builder.store(value, builder.bitcast(at, _FLOATS.as_pointer()), align=4)

    def _vector(self, data: Any, vector: int) -> Any:
        at = self._builder.gep(data, [_INDEX(vector * _LANES)])
        return self._builder.load(self._builder.bitcast(at, _FLOATS.as_pointer()), align=4)


_SIX: Final = _tile(6)
_FOUR: Final = _tile(4)
_TWO: Final = _tile(2)
_ONE_ROW: Final = _tile(1)


@part
def multiply_integers(x: Shorts, scales: Floats, product: IntegerProduct, out: Floats) -> None:
    """[rows, in] of which each row's numbers stand for so much, to [rows, tiles * COLUMNS]."""
    rows, inner = x.shape
    together = max(1, _CACHED // inner // _ROWS) * _ROWS
    for first in range(0, rows, together):
        last = min(rows, first + together)
        for tile in range(len(product.weight)):
            row, at = first, tile * COLUMNS
            while row < last:
                left = last - row
                if left >= 6 and left != 8:
                    _SIX(x, scales, row, product, tile, out, at)
                    row += 6
                elif left >= 4:
                    _FOUR(x, scales, row, product, tile, out, at)
                    row += 4
                elif left >= 2:
                    _TWO(x, scales, row, product, tile, out, at)
                    row += 2
                else:
                    _ONE_ROW(x, scales, row, product, tile, out, at)
                    row += 1


@compiled(floats(2), INTEGER_PRODUCT, floats(2))
def integer_product_of(x: Floats, product: IntegerProduct, out: Floats) -> None:
    """`multiply_integers` of float32 rows, to be called from outside."""
    whole = np.zeros((len(x), 2 * product.weight.shape[1]), np.int16)
    scales = np.empty(len(x), np.float32)
    for row in range(len(x)):
        scales[row] = shortened(x[row], whole[row])
    multiply_integers(whole, scales, product, out)
