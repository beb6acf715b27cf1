"""Products whose rows do not depend on their neighbours.

BLAS adds up each output of a float32 product in one order, whatever the number of rows, as long
as no thread is handed fewer than four of them: with one thread that means four rows or more, with
several a multiple of four. tests/unit/ttscommon/engine/nn/test_rows.py holds widths of 1024 to 6144
to it, with equality. On Intel's processors that takes the mode that `exact` sets. A step padded
here gives every stream the same bits, alone or in a batch.
"""

from __future__ import annotations

from typing import Final

from torch import Tensor, nn

ROW_TILE: Final = 4


def padded_rows(rows: int) -> int:
    """The least multiple of ROW_TILE that holds `rows` rows."""
    return -(-rows // ROW_TILE) * ROW_TILE


def pad_rows(x: Tensor) -> Tensor:
    """[rows, ...] -> [padded_rows(rows), ...], filled with zeros (of bool: False)."""
    missing = padded_rows(len(x)) - len(x)
    if not missing:
        return x
    return nn.functional.pad(x, (0, 0) * (x.ndim - 1) + (0, missing))
