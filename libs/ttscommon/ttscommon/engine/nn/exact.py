"""Products whose rows do not depend on their neighbours.

BLAS adds up each output of a float32 product in one order, whatever the number of rows, as long
as no thread is handed fewer than four of them: with one thread that means four rows or more, with
several a multiple of four. tests/unit/ttscommon/engine/nn/test_rows.py holds widths of 1024 to 6144
to it, with equality. A step padded here gives every stream the same bits, alone or in a batch.

MKL takes other kernels for products of few rows. On Intel's processors the border depends on the
shape, and with AVX2 there is none. MKL's strict mode of conditional numerical reproducibility
gives a row the same bits in any company, for any number of threads, with AVX2 and with AVX-512
(docs/decisions/bit-exactness.md).
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

ROW_TILE: Final = 4

_LIBRARY: Final = "libtorch_cpu.so"
_ANY_MODE: Final = -1
_NOT_CHOSEN: Final = 1
_STRICT: Final = 0x10000
_DONE: Final = 0


def padded_rows(rows: int) -> int:
    """The least multiple of ROW_TILE that holds `rows` rows."""
    return -(-rows // ROW_TILE) * ROW_TILE


def pad_rows(x: Tensor) -> Tensor:
    """[rows, ...] -> [padded_rows(rows), ...], filled with zeros (of bool: False)."""
    missing = padded_rows(len(x)) - len(x)
    if not missing:
        return x
    return nn.functional.pad(x, (0, 0) * (x.ndim - 1) + (0, missing))


def keep_one_order(vendor: str | None = None) -> bool:
    """Set MKL's strict mode for this process; whether it is set.

    It must come before the first product, so importing `ttscommon.engine.nn` calls it. It leaves
    alone what MKL_CBWR chose, builds of torch without MKL, and processors of other vendors than
    Intel, where the modes are others and four rows are enough.
    """
    if (_vendor() if vendor is None else vendor) != "GenuineIntel":
        return False
    library = _mkl()
    if library is None or "MKL_CBWR" in os.environ:
        return False
    if library.mkl_serv_cbwr_get(_ANY_MODE) != _NOT_CHOSEN:
        return True
    branch = library.mkl_serv_cbwr_get_auto_branch()
    return bool(library.mkl_serv_cbwr_set(branch | _STRICT) == _DONE)


def _mkl() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / _LIBRARY))
    except OSError:
        return None
    return library if hasattr(library, "mkl_serv_cbwr_set") else None


def _vendor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("vendor_id"))
    return next(named, "")
