"""Tiles of products with narrow weights, written as the vector code that they are.

Left to the compiler, the same loops reach half of the speed. What is rounded when is the same in
every tile, see `products_numba`, which gives rows to tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from ttscommon.engine.kernels.compiled import intrinsic, ir, types
from ttscommon.engine.kernels.vectors_numba import (
    COLUMNS,
    FLOAT,
    INDEX,
    NARROW,
    array_of,
    fused,
    load,
    parted,
    place,
    spread,
    store,
    turns,
    vector,
    wide_function,
)

BLOCK: Final = 128
"""Inputs whose weights are float32 at a time."""
WIDE_TILES: Final = 4
"""With twice as many registers, twice as wide as narrow ones at most."""


def tile_of(rows: int, tiles: int, *, wide: bool = False) -> Any:
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


def panel_tile_of(rows: int) -> Any:
    """As a wide `tile_of`, of weights `panel[:, :count]` that are float32 by now, of the inputs
    from `begin` on: sums go on from `out`, and behind the last inputs come scale and bias.
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
                _PanelTile(inside, known, first, size).write(rows, WIDE_TILES)

            name = f"antiphon_{number}_panel_{rows}"
            wide_function(builder, name, [*data, *given[7:]], write)
            return context.get_dummy_value()

        return types.void(x, row, product, tile, out, at, panel, begin, count), code

    return multiply


@intrinsic
def _widening(
    _context: Any, product: Any, tile: Any, inner: Any, panel: Any, begin: Any, count: Any
) -> Any:
    """The weights of `WIDE_TILES` tiles and of `count` inputs as float32 in `panel`."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        kind = signature.args[0].types[0]
        weight = array_of(context, builder, kind, builder.extract_value(given[0], 0)).data
        wide = array_of(context, builder, signature.args[3], given[3]).data

        def write(inside: Any, parameters: Sequence[Any]) -> None:
            narrow, first, inputs, into, begun, size = parameters
            tile = _Tile(inside, kind.dtype, COLUMNS, [narrow] * 9)

            def turn(k: Any, _: Sequence[Any]) -> Sequence[Any]:
                for t in range(WIDE_TILES):
                    row = inside.add(inside.mul(inside.add(first, INDEX(t)), inputs), begun)
                    at = inside.mul(inside.add(row, k), INDEX(COLUMNS))
                    to = inside.mul(inside.add(k, INDEX(t * BLOCK)), INDEX(COLUMNS))
                    numbers = tile.widened(inside.gep(narrow, [at]))
                    store(inside, numbers, inside.gep(into, [to]))
                return []

            turns(inside, size, [], turn)

        name = f"antiphon_{kind.dtype}widen"
        wide_function(builder, name, [weight, given[1], given[2], wide, *given[4:]], write)
        return context.get_dummy_value()

    return types.void(product, tile, inner, panel, begin, count), code


# As compiled code calls it.
widen: Final[Any] = _widening


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
    """Of `BLOCK` inputs' weights."""

    def __init__(self, builder: Any, given: Sequence[Any], begin: Any, count: Any) -> None:
        super().__init__(builder, types.float32, COLUMNS, given)
        self._begin, self._count = begin, count

    def write(self, rows: int, tiles: int) -> None:
        builder, vectors = self._builder, self._vectors * tiles
        xs = [
            builder.gep(place(builder, self._x, self._row, row, self._inner), [self._begin])
            for row in range(rows)
        ]
        weights = [builder.gep(self._weight, [INDEX(t * BLOCK * COLUMNS)]) for t in range(tiles)]
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
