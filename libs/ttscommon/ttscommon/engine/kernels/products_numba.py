"""Products with narrow weights and float32 sums for processors, to be called from compiled loops.

A few rows' product takes as long as its weights take to be read: float16 and bfloat16 are half of
float32's bytes, int8 with a scale for each output a quarter. Inputs stay float32. Tiles of up to
six rows and sixteen columns are summed in vector registers, see `tiles_numba`. Each output is one
chain of fused multiplications and additions in the order of its inputs, and then its scale and
bias. So a row has the same bits among any number of others, and those of fbgemm's kernels for
float16.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttscommon.engine.kernels.compiled import compiled, floats, part, tuple_of, types
from ttscommon.engine.kernels.shares import SHARED_ROWS, in_shares
from ttscommon.engine.kernels.tiles_numba import BLOCK, WIDE_TILES, panel_tile_of, tile_of, widen
from ttscommon.engine.kernels.vectors_numba import COLUMNS, ROWS, is_wide, rows_of_tile

Floats = NDArray[np.float32]
Bits = NDArray[np.uint16]
Steps = NDArray[np.int8]

# Numbers of so many rows at a time, which then stay in the second cache.
_CACHED: Final = 1 << 16
# Rows among which wide tiles share weights that were made float32, see `panel_tile_of`.
_MANY_ROWS: Final = 13
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


_SIX: Final = tile_of(6, 1)
_FIVE: Final = tile_of(5, 1)
_FOUR: Final = tile_of(4, 1)
_THREE: Final = tile_of(3, 1)
_TWO: Final = tile_of(2, 1)
_ONE: Final = tile_of(1, 1)
# Of few rows, sums enough to keep the registers busy.
_TWO_BY_TWO: Final = tile_of(2, 2)
_ONE_BY_FOUR: Final = tile_of(1, 4)
_WIDE_SIX: Final = tile_of(6, WIDE_TILES, wide=True)
_WIDE_FIVE: Final = tile_of(5, WIDE_TILES, wide=True)
_WIDE_FOUR: Final = tile_of(4, WIDE_TILES, wide=True)
_WIDE_THREE: Final = tile_of(3, WIDE_TILES, wide=True)
_WIDE_TWO: Final = tile_of(2, WIDE_TILES, wide=True)
_WIDE_ONE: Final = tile_of(1, WIDE_TILES, wide=True)
_PANEL_SIX: Final = panel_tile_of(6)
_PANEL_FIVE: Final = panel_tile_of(5)
_PANEL_FOUR: Final = panel_tile_of(4)
_PANEL_THREE: Final = panel_tile_of(3)


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
    """Rows first .. last of `WIDE_TILES` tiles."""
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
    """All rows of tiles first .. last, a multiple of `WIDE_TILES`: weights become float32 once
    for all rows, where a product of few rows makes them so for each tile of rows.
    """
    rows, inner = x.shape
    panel = np.empty((WIDE_TILES, BLOCK, COLUMNS), np.float32)
    for tile in range(first, last, WIDE_TILES):
        at = tile * COLUMNS
        for begin in range(0, inner, BLOCK):
            count, row = min(BLOCK, inner - begin), 0
            widen(product, tile, inner, panel, begin, count)
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
        behind = begin + (whole - begin) // WIDE_TILES * WIDE_TILES
        _of_panels(x, product, out, begin, behind)
        begin = behind
    for first in range(0, rows, together):
        last, tile = min(rows, first + together), begin
        if is_wide():
            while tile + WIDE_TILES <= whole:
                _of_wide_rows(x, first, last, product, tile, out)
                tile += WIDE_TILES
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
    if len(x) < SHARED_ROWS:
        multiply(x, product, out, 0, tiles)
        return
    in_shares(tiles, WIDE_TILES, lambda begin, end: multiply(x, product, out, begin, end))
