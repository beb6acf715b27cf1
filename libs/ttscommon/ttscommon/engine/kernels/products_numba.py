"""Products with narrow weights and float32 sums for processors, to be called from compiled loops.

A few rows' product takes as long as its weights take to be read: float16 and bfloat16 are half of
float32's bytes, int8 with a scale for each output a quarter. Inputs stay float32. A tile of up to
six rows and sixteen columns is summed in vector registers, which is written as the vector code that
it is: left to the compiler, the same loops reach half of the speed. Each output is one chain of
fused multiplications and additions in the order of its inputs, and then its scale and bias. So a
row has the same bits among any number of others, and those of fbgemm's kernels for float16.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttscommon.engine.kernels.compiled import (
    cgutils,
    compiled,
    floats,
    intrinsic,
    ir,
    part,
    tuple_of,
    types,
)

Floats = NDArray[np.float32]
Bits = NDArray[np.uint16]
Steps = NDArray[np.int8]

COLUMNS: Final = 16
"""Of a tile."""
_LANES: Final = 8
_VECTORS: Final = COLUMNS // _LANES
_ROWS: Final = 6
# Numbers of so many rows at a time, which then stay in the second cache.
_CACHED: Final = 1 << 16

_FLOAT: Final = ir.FloatType()
_INDEX: Final = ir.IntType(64)
_VECTOR: Final = ir.VectorType(_FLOAT, _LANES)
_HALVES: Final = ir.VectorType(ir.HalfType(), _LANES)
_BYTES: Final = ir.VectorType(ir.IntType(8), _LANES)
_SHORTS: Final = ir.VectorType(ir.IntType(16), _LANES)
_WORDS: Final = ir.VectorType(ir.IntType(32), _LANES)
_UPPER: Final = ir.Constant(_WORDS, [16] * _LANES)
# Of int8, which stays symmetric.
_STEPS: Final = 127


class Product(NamedTuple):
    """A linear layer. weight: [tiles, in, COLUMNS], the bits of float16 numbers; bias: [tiles *
    COLUMNS]; both with zeros behind the layer's last output.
    """

    weight: Bits
    bias: Floats


class BrainProduct(NamedTuple):
    """As Product; weight: the bits of bfloat16 numbers, as int16."""

    weight: NDArray[np.int16]
    bias: Floats


class ScaledProduct(NamedTuple):
    """As Product; weight: int8, times the `scale` [tiles * COLUMNS] of its output."""

    weight: Steps
    bias: Floats
    scale: Floats


AnyProduct = Product | BrainProduct | ScaledProduct


def bits(dimensions: int) -> Any:
    """An array of weights, C-contiguous."""
    return types.Array(types.uint16, dimensions, "C")


PRODUCT: Final = tuple_of(Product, bits(3), floats(1))
_BRAIN: Final = tuple_of(BrainProduct, types.Array(types.int16, 3, "C"), floats(1))
_SCALED: Final = tuple_of(ScaledProduct, types.Array(types.int8, 3, "C"), floats(1), floats(1))


def packed(weight: Floats, bias: Floats | None = None) -> Product:
    """Of a weight [out, in], rounded to float16, and a bias [out]."""
    with np.errstate(over="ignore"):
        narrow = weight.astype(np.float16)
    return Product(_tiled(narrow).view(np.uint16), _whole(bias, len(weight)))


def packed_brain(weight: NDArray[np.int16], bias: Floats | None = None) -> BrainProduct:
    """Of the bits of a bfloat16 weight [out, in], and a bias [out]."""
    return BrainProduct(_tiled(weight), _whole(bias, len(weight)))


def packed_scaled(weight: Floats, bias: Floats | None = None) -> ScaledProduct:
    """Of a weight [out, in], each output's rounded to 127 steps to either side, and a bias."""
    scale = np.abs(weight).max(1) / np.float32(_STEPS)
    steps = weight / np.maximum(scale, np.finfo(np.float32).tiny)[:, None]
    tiled = _tiled(np.rint(steps).astype(np.int8))
    return ScaledProduct(tiled, _whole(bias, len(weight)), _whole(scale, len(weight)))


def _tiled(weight: NDArray[Any]) -> Any:
    """[out, in] to [tiles, in, COLUMNS]."""
    outer, inner = weight.shape
    tiles = -(-outer // COLUMNS)
    wide = np.zeros((tiles * COLUMNS, inner), weight.dtype)
    wide[:outer] = weight
    return np.ascontiguousarray(wide.reshape(tiles, COLUMNS, inner).transpose(0, 2, 1))


def _whole(row: Floats | None, outer: int) -> Floats:
    """A number for each output of whole tiles."""
    found = np.zeros(-(-outer // COLUMNS) * COLUMNS, np.float32)
    found[:outer] = 0.0 if row is None else row
    return found


def unpacked(product: AnyProduct, outer: int) -> tuple[Floats, Floats]:
    """Weight [out, in] and bias [out] of the first outputs, float32."""
    tiles = _numbers(product).transpose(0, 2, 1)
    weight = tiles.reshape(-1, tiles.shape[2])[:outer]
    if isinstance(product, ScaledProduct):
        weight = weight * product.scale[:outer, None]
    return weight, product.bias[:outer].copy()


def _numbers(product: AnyProduct) -> Floats:
    if isinstance(product, Product):
        return product.weight.view(np.float16).astype(np.float32)
    if isinstance(product, BrainProduct):
        return (product.weight.astype(np.int32) << 16).view(np.float32)
    return product.weight.astype(np.float32)


def _tile(rows: int, tiles: int) -> Any:
    """The code of so many rows and of tiles side by side: `out[row : row + rows, at : at + tiles *
    COLUMNS]` becomes their part of the product. tile: the first of the weight's.
    """

    @intrinsic
    def multiply(
        _context: Any, x: Any, row: Any, product: Any, tile: Any, out: Any, at: Any
    ) -> Any:
        def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            return _Tile(context, builder, signature.args, given).summed(rows, tiles)

        return types.void(x, row, product, tile, out, at), code

    return multiply


class _Tile:
    """Writes the code of a tile."""

    def __init__(self, context: Any, builder: Any, kinds: Any, given: Any) -> None:
        self._context, self._builder = context, builder
        x, self._row, product, self._first, out, self._at = given
        fields = kinds[2].types
        parts = [
            self._array(kind, builder.extract_value(product, i)) for i, kind in enumerate(fields)
        ]
        self._x, self._out = (self._array(kinds[i], value) for i, value in ((0, x), (4, out)))
        self._weight, self._bias, *scale = parts
        self._scale = scale[0] if scale else None
        self._number = fields[0].dtype
        self._inner = builder.extract_value(self._x.shape, 1)
        self._outer = builder.extract_value(self._out.shape, 1)
        shape = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        declare: Any = cgutils.get_or_insert_function
        self._fma = declare(builder.module, shape, f"llvm.fma.v{_LANES}f32")

    def _array(self, kind: Any, value: Any) -> Any:
        return self._context.make_array(kind)(self._context, self._builder, value)

    def summed(self, rows: int, tiles: int) -> Any:
        builder = self._builder
        xs = [self._place(self._x.data, self._row, row, self._inner) for row in range(rows)]
        each = builder.mul(self._inner, _INDEX(COLUMNS))
        weights = [self._place(self._weight.data, self._first, t, each) for t in range(tiles)]
        before, loop = builder.block, builder.append_basic_block("inputs")
        builder.branch(loop)
        builder.position_at_end(loop)
        k, nothing = builder.phi(_INDEX), ir.Constant(_VECTOR, [0.0] * _LANES)
        k.add_incoming(_INDEX(0), before)
        sums = [[builder.phi(_VECTOR) for _ in range(_VECTORS * tiles)] for _ in range(rows)]
        columns = [v for weight in weights for v in self._columns(weight, k)]
        added = [self._added(x, k, columns, of_row) for x, of_row in zip(xs, sums, strict=True)]
        after = builder.add(k, _INDEX(1))
        k.add_incoming(after, loop)
        for old, new in zip(chain(*sums), chain(*added), strict=True):
            old.add_incoming(nothing, before)
            old.add_incoming(new, loop)
        done = builder.append_basic_block("summed")
        builder.cbranch(builder.icmp_signed("<", after, self._inner), loop, done)
        builder.position_at_end(done)
        for row, of_row in enumerate(added):
            self._store(row, of_row)
        return self._context.get_dummy_value()

    def _place(self, data: Any, first: Any, more: int, size: Any) -> Any:
        builder = self._builder
        return builder.gep(data, [builder.mul(builder.add(first, _INDEX(more)), size)])

    def _columns(self, weight: Any, k: Any) -> list[Any]:
        """A row of a tile's weights."""
        builder = self._builder
        first = builder.mul(k, _INDEX(COLUMNS))
        found = []
        for vector in range(_VECTORS):
            at = builder.gep(weight, [builder.add(first, _INDEX(vector * _LANES))])
            found.append(self._widened(at))
        return found

    def _widened(self, at: Any) -> Any:
        """The weights there, as float32."""
        builder = self._builder
        if self._number == types.int8:
            steps = builder.load(builder.bitcast(at, _BYTES.as_pointer()), align=1)
            return builder.sitofp(builder.sext(steps, _WORDS), _VECTOR)
        if self._number == types.int16:
            upper = builder.load(builder.bitcast(at, _SHORTS.as_pointer()), align=2)
            return builder.bitcast(builder.shl(builder.zext(upper, _WORDS), _UPPER), _VECTOR)
        halves = builder.load(builder.bitcast(at, _HALVES.as_pointer()), align=2)
        return builder.fpext(halves, _VECTOR)

    def _added(self, x: Any, k: Any, columns: list[Any], sums: list[Any]) -> list[Any]:
        builder = self._builder
        alone = ir.Constant(_VECTOR, ir.Undefined)
        alone = builder.insert_element(alone, builder.load(builder.gep(x, [k])), _INDEX(0))
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), _LANES), [0] * _LANES)
        one = builder.shuffle_vector(alone, ir.Constant(_VECTOR, ir.Undefined), everywhere)
        pairs = zip(columns, sums, strict=True)
        return [builder.call(self._fma, [one, column, old]) for column, old in pairs]

    def _store(self, row: int, sums: list[Any]) -> None:
        builder = self._builder
        out = self._place(self._out.data, self._row, row, self._outer)
        for vector, one in enumerate(sums):
            if self._scale is not None:
                one = builder.fmul(one, self._of_outputs(self._scale, vector))
            at = builder.gep(out, [builder.add(self._at, _INDEX(vector * _LANES))])
            where = builder.bitcast(at, _VECTOR.as_pointer())
            builder.store(builder.fadd(one, self._of_outputs(self._bias, vector)), where, align=4)

    def _of_outputs(self, row: Any, vector: int) -> Any:
        """A vector of biases or scales."""
        builder = self._builder
        first = builder.gep(row.data, [builder.mul(self._first, _INDEX(COLUMNS))])
        place = builder.gep(first, [_INDEX(vector * _LANES)])
        return builder.load(builder.bitcast(place, _VECTOR.as_pointer()), align=4)


_SIX: Final = _tile(6, 1)
_FIVE: Final = _tile(5, 1)
_FOUR: Final = _tile(4, 1)
_THREE: Final = _tile(3, 1)
_TWO: Final = _tile(2, 1)
_ONE: Final = _tile(1, 1)
# Of few rows, sums enough to keep the registers busy.
_TWO_BY_TWO: Final = _tile(2, 2)
_ONE_BY_FOUR: Final = _tile(1, 4)


@part
def _of_rows(
    x: Floats, first: int, last: int, product: AnyProduct, tile: int, out: Floats, at: int
) -> None:
    """Rows first .. last of one tile of the weight, in as few steps as there are."""
    row = first
    while row < last:
        left = last - row
        if left in (7, 8):
            left = 4
        if left >= 6:
            _SIX(x, row, product, tile, out, at)
            row += 6
        elif left == 5:
            _FIVE(x, row, product, tile, out, at)
            row += 5
        elif left == 4:
            _FOUR(x, row, product, tile, out, at)
            row += 4
        elif left == 3:
            _THREE(x, row, product, tile, out, at)
            row += 3
        elif left == 2:
            _TWO(x, row, product, tile, out, at)
            row += 2
        else:
            _ONE(x, row, product, tile, out, at)
            row += 1


@part
def multiply(x: Floats, product: AnyProduct, out: Floats) -> None:
    """[rows, in] to [rows, out]."""
    (rows, inner), outer = x.shape, out.shape[1]
    whole = outer // COLUMNS
    together = max(1, _CACHED // inner // _ROWS) * _ROWS
    last_columns = np.empty((rows if outer > whole * COLUMNS else 0, COLUMNS), np.float32)
    for first in range(0, rows, together):
        last, tile = min(rows, first + together), 0
        if last - first == 1:
            while tile + 4 <= whole:
                _ONE_BY_FOUR(x, first, product, tile, out, tile * COLUMNS)
                tile += 4
        elif last - first == 2:
            while tile + 2 <= whole:
                _TWO_BY_TWO(x, first, product, tile, out, tile * COLUMNS)
                tile += 2
        while tile < whole:
            _of_rows(x, first, last, product, tile, out, tile * COLUMNS)
            tile += 1
        if outer > whole * COLUMNS:
            _of_rows(x, first, last, product, whole, last_columns, 0)
    for row in range(len(last_columns)):
        for at in range(whole * COLUMNS, outer):
            out[row, at] = last_columns[row, at - whole * COLUMNS]


@compiled(floats(2), PRODUCT, floats(2))
def product_of(x: Floats, product: Product, out: Floats) -> None:
    """`multiply`, to be called from outside."""
    multiply(x, product, out)


@compiled(floats(2), _BRAIN, floats(2))
def brain_product_of(x: Floats, product: BrainProduct, out: Floats) -> None:
    """Likewise."""
    multiply(x, product, out)


@compiled(floats(2), _SCALED, floats(2))
def scaled_product_of(x: Floats, product: ScaledProduct, out: Floats) -> None:
    """Likewise."""
    multiply(x, product, out)


_COMPILED: Final[dict[type[Any], Any]] = {
    Product: product_of,
    BrainProduct: brain_product_of,
    ScaledProduct: scaled_product_of,
}


def applied(x: Floats, product: AnyProduct, out: Floats) -> None:
    """[rows, in] to [rows, out], whatever the weights are."""
    _COMPILED[type(product)](x, product, out)
