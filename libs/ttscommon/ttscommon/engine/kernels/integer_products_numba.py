"""Products of whole numbers for processors, to be called from compiled loops.

A processor with AVX2 multiplies twice as many pairs of 16-bit numbers at a time as of float32.
Each output of a layer has a scale for its weights, 13 bits or 7 of them, and each row one for its
numbers, of 14 bits; sums are exact, so a row has the same bits in any order, among any number of
others and on any machine. Sums of `_TOGETHER` inputs fit 32 bits and are added up in float32.
Weights of 7 bits are half as many bytes, which is what a product of few rows takes its time for.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttscommon.engine.kernels.compiled import (
    as_float,
    floats,
    intrinsic,
    ir,
    part,
    tuple_of,
    types,
)
from ttscommon.engine.kernels.vectors_numba import (
    COLUMNS,
    FLOAT,
    INDEX,
    NARROW,
    ROWS,
    array_of,
    fused,
    is_wide,
    load,
    parted,
    place,
    rows_of_tile,
    spread,
    store,
    turns,
    vector,
    wide_function,
)

Floats = NDArray[np.float32]
Shorts = NDArray[np.int16]
Bytes = NDArray[np.int8]

LARGEST: Final = 16383
"""Of a row's numbers."""
_LARGEST: Final = np.float32(LARGEST)
_ONE: Final = np.float32(1.0)
_NOT_A_NUMBER: Final = np.float32(np.nan)
_ROUNDING: Final = np.float32(3 << 22)
_NO_SIGN: Final = np.int32(0x7FFFFFFF)
_INFINITE: Final = np.int32(0x7F800000)
_LEAST: Final = np.int32(0x0C000000)  # 2 to the -103, of which no factor is infinite
_MOST_SUM: Final = 2**31 - 1
_MOST_WEIGHT: Final = 2**13 - 1
_MOST_BYTE: Final = 2**7 - 1
_TOGETHER: Final = 128
"""Inputs whose products are added up as whole numbers."""
# Rows whose numbers stay in the first cache beside a tile.
_CACHED: Final = 1 << 14

_PAIR: Final = ir.IntType(32)


class IntegerProduct(NamedTuple):
    """A linear layer. weight: [tiles, pairs of inputs, COLUMNS, 2]; scale, bias: [tiles *
    COLUMNS]; zeros behind the layer's last input and output. Of several layers: [layers, ...] each.
    """

    weight: Shorts | Bytes
    scale: Floats
    bias: Floats


def shorts(dimensions: int) -> Any:
    """An array of int16, C-contiguous."""
    return types.Array(types.int16, dimensions, "C")


def _bytes(dimensions: int) -> Any:
    return types.Array(types.int8, dimensions, "C")


INTEGER_PRODUCT: Final = tuple_of(IntegerProduct, shorts(4), floats(1), floats(1))
INTEGER_PRODUCTS: Final = tuple_of(IntegerProduct, shorts(5), floats(2), floats(2))
BYTE_PRODUCT: Final = tuple_of(IntegerProduct, _bytes(4), floats(1), floats(1))
BYTE_PRODUCTS: Final = tuple_of(IntegerProduct, _bytes(5), floats(2), floats(2))


def integers_of(weight: Floats, bias: Floats, *, narrow: bool = False) -> IntegerProduct:
    """Of a weight [out, in] and a bias [out]. narrow: weights are bytes."""
    outer, inner = weight.shape
    tiles, pairs = -(-outer // COLUMNS), -(-inner // 2)
    wide = np.zeros((tiles * COLUMNS, pairs * 2), np.float32)
    wide[:outer, :inner] = weight
    scale = _scales(wide, _MOST_BYTE if narrow else _MOST_WEIGHT)
    whole = np.rint(wide / scale[:, None]).astype(np.int8 if narrow else np.int16)
    tiled = whole.reshape(tiles, COLUMNS, pairs, 2).transpose(0, 2, 1, 3)
    biases = np.zeros(tiles * COLUMNS, np.float32)
    biases[:outer] = bias
    return IntegerProduct(np.ascontiguousarray(tiled), scale, biases)


def stacked(products: Sequence[IntegerProduct]) -> IntegerProduct:
    """Of several layers."""
    return IntegerProduct(*map(np.stack, zip(*products, strict=True)))


def _scales(wide: Floats, most: int) -> Floats:
    """The least of each output with which no weight is beyond `most` and no sum overflows."""
    outer, inner = wide.shape
    magnitude = np.abs(wide)
    padded = np.pad(magnitude, ((0, 0), (0, -inner % _TOGETHER)))
    sums = padded.reshape(outer, -1, _TOGETHER).sum(2).max(1)
    room = _MOST_SUM / LARGEST - _TOGETHER  # each may be rounded up
    found = np.maximum(magnitude.max(1) / most, sums / room)
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


def _tile(rows: int, tiles: int = 1, *, wide: bool = False) -> Any:
    """The code of so many rows and of tiles side by side: `out[row : row + rows, at : at + tiles *
    COLUMNS]` becomes their part of the product. tile: the first of the weight's.
    """

    @intrinsic
    def multiply(
        _context: Any, x: Any, scales: Any, row: Any, product: Any, tile: Any, out: Any, at: Any
    ) -> Any:
        def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            data = _pointers(context, builder, signature.args, given)
            if wide:
                name = f"antiphon_integers_{rows}x{tiles}_of_{data[3].type.pointee.width}"
                wide_function(
                    builder, name, data, lambda *inside: _Tile(COLUMNS, *inside).write(rows, tiles)
                )
            else:
                _Tile(NARROW, builder, data).write(rows, tiles)
            return context.get_dummy_value()

        return types.void(x, scales, row, product, tile, out, at), code

    return multiply


def _pointers(context: Any, builder: Any, kinds: Any, given: Any) -> list[Any]:
    """What `_Tile` is given, from an intrinsic's arguments."""
    x, scales, row, product, tile, out, at = given

    array = partial(array_of, context, builder)
    inputs, outputs = array(kinds[0], x), array(kinds[5], out)
    weight, scale, bias = (
        array(kind, builder.extract_value(product, i)) for i, kind in enumerate(kinds[3].types)
    )
    sizes = [
        *(builder.extract_value(weight.shape, 1), builder.extract_value(inputs.shape, 1)),
        builder.extract_value(outputs.shape, 1),
    ]
    rows = [inputs.data, array(kinds[1], scales).data, outputs.data]
    return [*rows, weight.data, scale.data, bias.data, row, tile, at, *sizes]


class _Tile:
    """Writes the code of a tile, with vectors of so many 32-bit lanes."""

    def __init__(self, lanes: int, builder: Any, given: Sequence[Any]) -> None:
        self._builder, self._lanes = builder, lanes
        self._x, self._scales, self._out, weight, scale, bias, self._row, tile = given[:8]
        self._at, self._pairs, self._inner, self._outer = given[8:]
        self._floats, self._words = vector(FLOAT, lanes), vector(_PAIR, lanes)
        self._shorts = vector(ir.IntType(16), 2 * lanes)
        columns = builder.mul(tile, INDEX(COLUMNS))
        self._scale, self._bias = builder.gep(scale, [columns]), builder.gep(bias, [columns])
        self._size = builder.mul(self._pairs, INDEX(2 * COLUMNS))
        self._first = builder.gep(weight, [builder.mul(tile, self._size)])

    def write(self, rows: int, tiles: int) -> None:
        builder, vectors = self._builder, tiles * COLUMNS // self._lanes
        one = ir.Constant(self._floats, [1.0] * self._lanes)

        def of_part(begin: Any, totals: Sequence[Any]) -> Sequence[Any]:
            """Sums of whole numbers, added up in float32."""
            end = builder.add(begin, INDEX(_TOGETHER // 2))
            end = builder.select(builder.icmp_signed("<", end, self._pairs), end, self._pairs)
            none = [ir.Constant(self._words, [0] * self._lanes)] * (rows * vectors)
            sums = turns(builder, end, none, partial(self._of_pair, vectors), begin)
            pairs = zip(totals, sums, strict=True)
            return [fused(builder, builder.sitofp(s, self._floats), one, t) for t, s in pairs]

        nothing = [ir.Constant(self._floats, [0.0] * self._lanes)] * (rows * vectors)
        summed = turns(builder, self._pairs, nothing, of_part, step=_TOGETHER // 2)
        for row, of_row in enumerate(parted(summed, vectors)):
            self._store(row, of_row)

    def _of_pair(self, vectors: int, k: Any, sums: Sequence[Any]) -> Sequence[Any]:
        """The sums with a pair of inputs more."""
        columns = [self._column(k, one) for one in range(vectors)]
        found = []
        for row, of_row in enumerate(parted(sums, vectors)):
            one = self._everywhere(row, k)
            for column, old in zip(columns, of_row, strict=True):
                found.append(self._builder.add(old, self._paired(one, column)))
        return found

    def _column(self, k: Any, index: int) -> Any:
        """A vector of a pair of inputs' weights, of tiles side by side."""
        builder = self._builder
        tile, column = divmod(index * self._lanes, COLUMNS)
        begin = builder.add(builder.mul(self._size, INDEX(tile)), INDEX(2 * column))
        first = builder.gep(self._first, [builder.add(begin, builder.mul(k, INDEX(2 * COLUMNS)))])
        kind = first.type.pointee
        found = load(builder, first, vector(kind, 2 * self._lanes), kind.width // 8)
        return found if found.type == self._shorts else builder.sext(found, self._shorts)

    def _everywhere(self, row: int, k: Any) -> Any:
        builder = self._builder
        first = place(builder, self._x, self._row, row, self._inner)
        at = builder.gep(first, [builder.mul(k, INDEX(2))])
        pair = builder.load(builder.bitcast(at, _PAIR.as_pointer()), align=2)
        return builder.bitcast(spread(builder, pair, self._lanes), self._shorts)

    def _paired(self, one: Any, column: Any) -> Any:
        """Sums of neighbours' products, which compilers know as one instruction of x86."""
        builder, lanes = self._builder, self._lanes
        wide = vector(_PAIR, 2 * lanes)
        products = builder.mul(builder.sext(one, wide), builder.sext(column, wide))
        nothing = ir.Constant(wide, ir.Undefined)
        even, odd = (
            builder.shuffle_vector(products, nothing, ir.Constant(self._words, list(chosen)))
            for chosen in (range(0, 2 * lanes, 2), range(1, 2 * lanes, 2))
        )
        return builder.add(even, odd)

    def _store(self, row: int, sums: Sequence[Any]) -> None:
        builder = self._builder
        scale = builder.load(builder.gep(self._scales, [builder.add(self._row, INDEX(row))]))
        everywhere = spread(builder, scale, self._lanes)
        nothing = ir.Constant(self._floats, [-0.0] * self._lanes)
        out = builder.gep(place(builder, self._out, self._row, row, self._outer), [self._at])
        for index, total in enumerate(sums):
            column = INDEX(index * self._lanes)
            scales, biases = (
                load(builder, builder.gep(data, [column]), self._floats, 4)
                for data in (self._scale, self._bias)
            )
            factors = fused(builder, scales, everywhere, nothing)
            value = fused(builder, total, factors, biases)
            store(builder, value, builder.gep(out, [column]))


_SIX: Final = _tile(6)
_FOUR: Final = _tile(4)
_TWO: Final = _tile(2)
_ONE_ROW: Final = _tile(1)
_THREE: Final = _tile(3)
# So few rows leave registers for several tiles, whose sums then do not wait for each other.
_ONE_BY_FOUR: Final = _tile(1, 4)
_TWO_BY_TWO: Final = _tile(2, 2)
# With twice as many registers, twice as wide.
_WIDE_TILES: Final = 4
_WIDE_SIX: Final = _tile(6, _WIDE_TILES, wide=True)
_WIDE_FIVE: Final = _tile(5, _WIDE_TILES, wide=True)
_WIDE_FOUR: Final = _tile(4, _WIDE_TILES, wide=True)
_WIDE_THREE: Final = _tile(3, _WIDE_TILES, wide=True)
_WIDE_TWO: Final = _tile(2, _WIDE_TILES, wide=True)
_WIDE_ONE: Final = _tile(1, _WIDE_TILES, wide=True)


@part
def _of_wide_rows(
    x: Shorts, scales: Floats, first: int, last: int, product: IntegerProduct, tile: int,
    out: Floats,
) -> None:  # fmt: skip
    """Rows first .. last of `_WIDE_TILES` tiles."""
    row, at = first, tile * COLUMNS
    while row < last:
        size = rows_of_tile(last - row)
        if size == 6:
            _WIDE_SIX(x, scales, row, product, tile, out, at)
        elif size == 5:
            _WIDE_FIVE(x, scales, row, product, tile, out, at)
        elif size == 4:
            _WIDE_FOUR(x, scales, row, product, tile, out, at)
        elif size == 3:
            _WIDE_THREE(x, scales, row, product, tile, out, at)
        elif size == 2:
            _WIDE_TWO(x, scales, row, product, tile, out, at)
        else:
            _WIDE_ONE(x, scales, row, product, tile, out, at)
        row += size


@part
def multiply_integers(x: Shorts, scales: Floats, product: IntegerProduct, out: Floats) -> None:
    """[rows, in] of which each row's numbers stand for so much, to [rows, tiles * COLUMNS]."""
    rows, inner = x.shape
    together = max(1, _CACHED // inner // ROWS) * ROWS
    for first in range(0, rows, together):
        last, begin = min(rows, first + together), 0
        if is_wide():
            while begin + _WIDE_TILES <= len(product.weight):
                _of_wide_rows(x, scales, first, last, product, begin, out)
                begin += _WIDE_TILES
        if last - first == 1:
            while begin + 4 <= len(product.weight):
                _ONE_BY_FOUR(x, scales, first, product, begin, out, begin * COLUMNS)
                begin += 4
        elif last - first == 2:
            while begin + 2 <= len(product.weight):
                _TWO_BY_TWO(x, scales, first, product, begin, out, begin * COLUMNS)
                begin += 2
        for tile in range(begin, len(product.weight)):
            row, at = first, tile * COLUMNS
            while row < last:
                left = last - row
                if left >= 6 and left != 8:
                    _SIX(x, scales, row, product, tile, out, at)
                    row += 6
                elif left >= 4:
                    _FOUR(x, scales, row, product, tile, out, at)
                    row += 4
                elif left == 3:
                    _THREE(x, scales, row, product, tile, out, at)
                    row += 3
                elif left == 2:
                    _TWO(x, scales, row, product, tile, out, at)
                    row += 2
                else:
                    _ONE_ROW(x, scales, row, product, tile, out, at)
                    row += 1


@part
def multiply_rounded(x: Floats, product: IntegerProduct, out: Floats) -> None:
    """[rows, in] float32, rounded first, to [rows, out]."""
    whole = np.zeros((len(x), 2 * product.weight.shape[1]), np.int16)
    scales = np.empty(len(x), np.float32)
    for row in range(len(x)):
        scales[row] = shortened(x[row], whole[row])
    (rows, outer), width = out.shape, len(product.bias)
    made = out if outer == width else np.empty((rows, width), np.float32)
    multiply_integers(whole, scales, product, made)
    if outer < width:
        for row in range(rows):
            for at in range(outer):
                out[row, at] = made[row, at]


@part
def of_layer(products: IntegerProduct, layer: int) -> IntegerProduct:
    """One of several."""
    return IntegerProduct(products.weight[layer], products.scale[layer], products.bias[layer])
