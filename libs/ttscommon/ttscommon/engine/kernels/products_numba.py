"""Products with narrow weights and float32 sums for processors, to be called from compiled loops.

A few rows' product takes as long as its weights take to be read: float16 and bfloat16 are half of
float32's bytes, int8 with a scale for each output a quarter. Inputs stay float32. A tile of up to
six rows and sixteen columns is summed in vector registers, which is written as the vector code that
it is: left to the compiler, the same loops reach half of the speed. Each output is one chain of
fused multiplications and additions in the order of its inputs, and then its scale and bias. So a
row has the same bits among any number of others, and those of fbgemm's kernels for float16.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttscommon.engine.kernels.compiled import (
    compiled,
    floats,
    intrinsic,
    ir,
    part,
    tuple_of,
    types,
)
from ttscommon.engine.kernels.shares import in_shares
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
Bits = NDArray[np.uint16]
Steps = NDArray[np.int8]

# Numbers of so many rows at a time, which then stay in the second cache.
_CACHED: Final = 1 << 16
# Rows among which wide tiles share weights that were made float32, so many inputs' at a time.
_MANY_ROWS: Final = 13
_BLOCK: Final = 128
# Rows of a prompt: in steps of few streams the other stage needs its processor.
_SHARED_ROWS: Final = 24
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


def _tile(rows: int, tiles: int, *, wide: bool = False) -> Any:
    """The code of so many rows and of tiles side by side: `out[row : row + rows, at : at + tiles *
    COLUMNS]` becomes their part of the product. tile: the first of the weight's.
    """

    @intrinsic
    def multiply(
        _context: Any, x: Any, row: Any, product: Any, tile: Any, out: Any, at: Any
    ) -> Any:
        def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            number = signature.args[2].types[0].dtype
            data = _pointers(context, builder, signature.args, given)
            if not wide:
                _Tile(builder, number, NARROW, data).write(rows, tiles)
                return context.get_dummy_value()

            def write(inside: Any, parameters: Sequence[Any]) -> None:
                _Tile(inside, number, COLUMNS, parameters).write(rows, tiles)

            wide_function(builder, f"antiphon_{number}_{rows}x{tiles}", data, write)
            return context.get_dummy_value()

        return types.void(x, row, product, tile, out, at), code

    return multiply


def _pointers(context: Any, builder: Any, kinds: Any, given: Any) -> list[Any]:
    """What `_Tile` is given, from an intrinsic's arguments."""
    x, row, product, tile, out, at = given

    array = partial(array_of, context, builder)
    fields = kinds[2].types
    weight, *others = (
        array(kind, builder.extract_value(product, i)).data for i, kind in enumerate(fields)
    )
    inputs, outputs = array(kinds[0], x), array(kinds[4], out)
    inner, outer = (builder.extract_value(one.shape, 1) for one in (inputs, outputs))
    data = [inputs.data, weight, others[0], outputs.data, *others[1:]]
    return [*data, row, tile, inner, outer, at]


def _panel_tile(rows: int) -> Any:
    """As a wide `_tile`, of weights `panel[:, :count]` that are float32 by now, of the inputs from
    `begin` on: sums go on from `out`, and behind the last inputs come scale and bias.
    """

    @intrinsic
    def multiply(
        _context: Any,
        x: Any,
        row: Any,
        product: Any,
        tile: Any,
        out: Any,
        at: Any,
        panel: Any,
        begin: Any,
        count: Any,
    ) -> Any:
        def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            number = signature.args[2].types[0].dtype
            data = _pointers(context, builder, signature.args, given[:6])
            data[1] = array_of(context, builder, signature.args[6], given[6]).data

            def write(inside: Any, parameters: Sequence[Any]) -> None:
                *known, first, size = parameters
                _PanelTile(inside, known, first, size).write(rows, _WIDE_TILES)

            name = f"antiphon_{number}_panel_{rows}"
            wide_function(builder, name, [*data, *given[7:]], write)
            return context.get_dummy_value()

        return types.void(x, row, product, tile, out, at, panel, begin, count), code

    return multiply


@intrinsic
def _widening(
    _context: Any, product: Any, tile: Any, inner: Any, panel: Any, begin: Any, count: Any
) -> Any:
    """The weights of `_WIDE_TILES` tiles and of `count` inputs as float32 in `panel`."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        kind = signature.args[0].types[0]
        weight = array_of(context, builder, kind, builder.extract_value(given[0], 0)).data
        wide = array_of(context, builder, signature.args[3], given[3]).data

        def write(inside: Any, parameters: Sequence[Any]) -> None:
            narrow, first, inputs, into, begun, size = parameters
            tile = _Tile(inside, kind.dtype, COLUMNS, [narrow] * 9)

            def turn(k: Any, _: Sequence[Any]) -> Sequence[Any]:
                for t in range(_WIDE_TILES):
                    row = inside.add(inside.mul(inside.add(first, INDEX(t)), inputs), begun)
                    at = inside.mul(inside.add(row, k), INDEX(COLUMNS))
                    to = inside.mul(inside.add(k, INDEX(t * _BLOCK)), INDEX(COLUMNS))
                    numbers = tile.widened(inside.gep(narrow, [at]))
                    store(inside, numbers, inside.gep(into, [to]))
                return []

            turns(inside, size, [], turn)

        name = f"antiphon_{kind.dtype}_widen"
        wide_function(builder, name, [weight, given[1], given[2], wide, *given[4:]], write)
        return context.get_dummy_value()

    return types.void(product, tile, inner, panel, begin, count), code


# As compiled code calls it.
_widen: Final[Any] = _widening


class _Tile:
    """Writes the code of a tile, with vectors of so many lanes."""

    def __init__(self, builder: Any, number: Any, lanes: int, given: Sequence[Any]) -> None:
        """given: data of x, weight, bias, out and, if there are scales, of those; and the numbers
        row, first tile, inputs, outputs and first column.
        """
        self._builder, self._number, self._lanes = builder, number, lanes
        self._vectors, self._kind = COLUMNS // lanes, vector(FLOAT, lanes)
        self._x, self._weight, self._bias, self._out, *scale = given[:-5]
        self._row, self._first, self._inner, self._outer, self._at = given[-5:]
        self._scale = scale[0] if scale else None

    def write(self, rows: int, tiles: int) -> None:
        builder, vectors = self._builder, self._vectors * tiles
        xs = [place(builder, self._x, self._row, row, self._inner) for row in range(rows)]
        each = builder.mul(self._inner, INDEX(COLUMNS))
        weights = [place(builder, self._weight, self._first, t, each) for t in range(tiles)]
        nothing = [ir.Constant(self._kind, [0.0] * self._lanes)] * (rows * vectors)
        summed = self._summed(xs, weights, self._inner, nothing)
        for row, of_row in enumerate(summed):
            self._store(row, of_row)

    def _summed(
        self, xs: Sequence[Any], weights: Sequence[Any], count: Any, begun: Sequence[Any]
    ) -> Sequence[Sequence[Any]]:
        """Each row's sums behind so many inputs, from what they have begun with."""
        vectors = self._vectors * len(weights)

        def turn(k: Any, sums: Sequence[Any]) -> Sequence[Any]:
            columns = [v for weight in weights for v in self._columns(weight, k)]
            of_rows = zip(xs, parted(sums, vectors), strict=True)
            return [v for x, old in of_rows for v in self._added(x, k, columns, old)]

        return parted(turns(self._builder, count, begun, turn), vectors)

    def _columns(self, weight: Any, k: Any) -> list[Any]:
        """A row of a tile's weights."""
        builder = self._builder
        first = builder.mul(k, INDEX(COLUMNS))
        found = []
        for one in range(self._vectors):
            at = builder.gep(weight, [builder.add(first, INDEX(one * self._lanes))])
            found.append(self.widened(at))
        return found

    def widened(self, at: Any) -> Any:
        """The weights there, as float32."""
        builder, lanes = self._builder, self._lanes
        words = vector(ir.IntType(32), lanes)
        if self._number == types.float32:
            return load(builder, at, self._kind, 4)
        if self._number == types.int8:
            steps = load(builder, at, vector(ir.IntType(8), lanes), 1)
            return builder.sitofp(builder.sext(steps, words), self._kind)
        if self._number == types.int16:
            upper = builder.zext(load(builder, at, vector(ir.IntType(16), lanes), 2), words)
            shifted = builder.shl(upper, ir.Constant(words, [16] * lanes))
            return builder.bitcast(shifted, self._kind)
        return builder.fpext(load(builder, at, vector(ir.HalfType(), lanes), 2), self._kind)

    def _added(self, x: Any, k: Any, columns: list[Any], sums: Sequence[Any]) -> list[Any]:
        builder = self._builder
        one = spread(builder, builder.load(builder.gep(x, [k])), self._lanes)
        pairs = zip(columns, sums, strict=True)
        return [fused(builder, one, column, old) for column, old in pairs]

    def _store(self, row: int, sums: Sequence[Any]) -> None:
        places = self._places(row, len(sums))
        for index, (at, one) in enumerate(zip(places, sums, strict=True)):
            store(self._builder, self._finished(one, index), at)

    def _places(self, row: int, vectors: int) -> list[Any]:
        """Where a row's outputs go."""
        builder = self._builder
        out = place(builder, self._out, self._row, row, self._outer)
        steps = (INDEX(index * self._lanes) for index in range(vectors))
        return [builder.gep(out, [builder.add(self._at, step)]) for step in steps]

    def _finished(self, sums: Any, index: int) -> Any:
        """With scale and bias."""
        bias = self._of_outputs(self._bias, index)
        if self._scale is None:
            return self._builder.fadd(sums, bias)
        return fused(self._builder, sums, self._of_outputs(self._scale, index), bias)

    def _of_outputs(self, data: Any, index: int) -> Any:
        """A vector of biases or scales."""
        builder = self._builder
        first = builder.gep(data, [builder.mul(self._first, INDEX(COLUMNS))])
        return load(builder, builder.gep(first, [INDEX(index * self._lanes)]), self._kind, 4)


class _PanelTile(_Tile):
    """Of `_BLOCK` inputs' weights."""

    def __init__(self, builder: Any, given: Sequence[Any], begin: Any, count: Any) -> None:
        super().__init__(builder, types.float32, COLUMNS, given)
        self._begin, self._count = begin, count

    def write(self, rows: int, tiles: int) -> None:
        builder, vectors = self._builder, self._vectors * tiles
        xs = [
            builder.gep(place(builder, self._x, self._row, row, self._inner), [self._begin])
            for row in range(rows)
        ]
        weights = [builder.gep(self._weight, [INDEX(t * _BLOCK * COLUMNS)]) for t in range(tiles)]
        places = [self._places(row, vectors) for row in range(rows)]
        nothing = ir.Constant(self._kind, [0.0] * self._lanes)
        begins = builder.icmp_signed("==", self._begin, INDEX(0))
        begun = [
            builder.select(begins, nothing, load(builder, at, self._kind, 4))
            for of_row in places
            for at in of_row
        ]
        summed = self._summed(xs, weights, self._count, begun)
        end = builder.add(self._begin, self._count)
        over = builder.icmp_signed("==", end, self._inner)
        for of_row, sums in zip(places, summed, strict=True):
            for index, (at, one) in enumerate(zip(of_row, sums, strict=True)):
                store(builder, builder.select(over, self._finished(one, index), one), at)


_SIX: Final = _tile(6, 1)
_FIVE: Final = _tile(5, 1)
_FOUR: Final = _tile(4, 1)
_THREE: Final = _tile(3, 1)
_TWO: Final = _tile(2, 1)
_ONE: Final = _tile(1, 1)
# Of few rows, sums enough to keep the registers busy.
_TWO_BY_TWO: Final = _tile(2, 2)
_ONE_BY_FOUR: Final = _tile(1, 4)
# With twice as many registers, twice as wide.
_WIDE_TILES: Final = 4
_WIDE_SIX: Final = _tile(6, _WIDE_TILES, wide=True)
_WIDE_FIVE: Final = _tile(5, _WIDE_TILES, wide=True)
_WIDE_FOUR: Final = _tile(4, _WIDE_TILES, wide=True)
_WIDE_THREE: Final = _tile(3, _WIDE_TILES, wide=True)
_WIDE_TWO: Final = _tile(2, _WIDE_TILES, wide=True)
_WIDE_ONE: Final = _tile(1, _WIDE_TILES, wide=True)
_PANEL_SIX: Final = _panel_tile(6)
_PANEL_FIVE: Final = _panel_tile(5)
_PANEL_FOUR: Final = _panel_tile(4)
_PANEL_THREE: Final = _panel_tile(3)


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
def _of_wide_rows(
    x: Floats, first: int, last: int, product: AnyProduct, tile: int, out: Floats
) -> None:
    """Rows first .. last of `_WIDE_TILES` tiles."""
    row, at = first, tile * COLUMNS
    while row < last:
        size = rows_of_tile(last - row)
        if size == 6:
            _WIDE_SIX(x, row, product, tile, out, at)
        elif size == 5:
            _WIDE_FIVE(x, row, product, tile, out, at)
        elif size == 4:
            _WIDE_FOUR(x, row, product, tile, out, at)
        elif size == 3:
            _WIDE_THREE(x, row, product, tile, out, at)
        elif size == 2:
            _WIDE_TWO(x, row, product, tile, out, at)
        else:
            _WIDE_ONE(x, row, product, tile, out, at)
        row += size


@part
def _of_panels(x: Floats, product: AnyProduct, out: Floats, first: int, last: int) -> None:
    """All rows of tiles first .. last, a multiple of `_WIDE_TILES`: weights become float32 once
    for all rows, where a product of few rows makes them so for each tile of rows.
    """
    rows, inner = x.shape
    panel = np.empty((_WIDE_TILES, _BLOCK, COLUMNS), np.float32)
    for tile in range(first, last, _WIDE_TILES):
        at = tile * COLUMNS
        for begin in range(0, inner, _BLOCK):
            count, row = min(_BLOCK, inner - begin), 0
            _widen(product, tile, inner, panel, begin, count)
            while row < rows:
                size = rows_of_tile(rows - row)
                if size == 6:
                    _PANEL_SIX(x, row, product, tile, out, at, panel, begin, count)
                elif size == 5:
                    _PANEL_FIVE(x, row, product, tile, out, at, panel, begin, count)
                elif size == 4:
                    _PANEL_FOUR(x, row, product, tile, out, at, panel, begin, count)
                else:
                    _PANEL_THREE(x, row, product, tile, out, at, panel, begin, count)
                row += size


@part
def multiply(x: Floats, product: AnyProduct, out: Floats, begin: int, end: int) -> None:
    """[rows, in] to the outputs of tiles begin .. end of [rows, out]."""
    (rows, inner), outer = x.shape, out.shape[1]
    whole = min(end, outer // COLUMNS)
    together = max(1, _CACHED // inner // ROWS) * ROWS
    last_columns = np.empty((rows if end > whole else 0, COLUMNS), np.float32)
    if is_wide() and rows >= _MANY_ROWS:
        behind = begin + (whole - begin) // _WIDE_TILES * _WIDE_TILES
        _of_panels(x, product, out, begin, behind)
        begin = behind
    for first in range(0, rows, together):
        last, tile = min(rows, first + together), begin
        if is_wide():
            while tile + _WIDE_TILES <= whole:
                _of_wide_rows(x, first, last, product, tile, out)
                tile += _WIDE_TILES
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
        if end > whole:
            _of_rows(x, first, last, product, whole, last_columns, 0)
    for row in range(len(last_columns)):
        for at in range(whole * COLUMNS, outer):
            out[row, at] = last_columns[row, at - whole * COLUMNS]


_TILES: Final = types.int64, types.int64


@compiled(floats(2), PRODUCT, floats(2), *_TILES)
def product_of(x: Floats, product: Product, out: Floats, begin: int, end: int) -> None:
    """`multiply`, to be called from outside."""
    multiply(x, product, out, begin, end)


@compiled(floats(2), _BRAIN, floats(2), *_TILES)
def brain_product_of(x: Floats, product: BrainProduct, out: Floats, begin: int, end: int) -> None:
    """Likewise."""
    multiply(x, product, out, begin, end)


@compiled(floats(2), _SCALED, floats(2), *_TILES)
def scaled_product_of(x: Floats, product: ScaledProduct, out: Floats, begin: int, end: int) -> None:
    """Likewise."""
    multiply(x, product, out, begin, end)


_COMPILED: Final[dict[type[Any], Any]] = {
    Product: product_of,
    BrainProduct: brain_product_of,
    ScaledProduct: scaled_product_of,
}


def applied(x: Floats, product: AnyProduct, out: Floats) -> None:
    """[rows, in] to [rows, out], whatever the weights are. Other processors help with many rows."""
    multiply, tiles = _COMPILED[type(product)], -(-out.shape[1] // COLUMNS)
    if len(x) < _SHARED_ROWS:
        multiply(x, product, out, 0, tiles)
        return
    in_shares(tiles, _WIDE_TILES, lambda begin, end: multiply(x, product, out, begin, end))
