"""A voice's table as PyTorch saves a tensor: a zip archive of a pickle and numbers.

Written by hand, for the gateway has no torch: torch/serialization.py says what is in it.
"""

from __future__ import annotations

import io
import struct
import zipfile
from typing import Any, Final

import numpy as np
import numpy.typing as npt

_FOLDER: Final = "voice"
# Protocol 2, opcode by opcode (pickletools names them): torch._utils._rebuild_tensor_v2 of the
# storage "0", an offset, a shape, strides, no gradient and no hooks.
_STORAGE: Final = (
    b"((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu"
)
_HEAD: Final = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n" + _STORAGE
_TAIL: Final = b"\x89ccollections\nOrderedDict\n)RtR."


def voice_pack(rows: npt.NDArray[Any]) -> bytes:
    """[lengths, values] float32 as a tensor [lengths, 1, values]."""
    lengths, values = rows.shape
    pickled = _HEAD + _int(rows.size) + b"tQ" + _int(0)
    pickled += _triple(lengths, 1, values) + _triple(values, values, 1) + _TAIL
    members = {
        "data.pkl": pickled,
        "byteorder": b"little",
        "data/0": np.ascontiguousarray(rows, "<f4").tobytes(),
        "version": b"3\n",
    }
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(f"{_FOLDER}/{name}"), data)
    return made.getvalue()


def _int(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def _triple(*values: int) -> bytes:
    return b"".join(map(_int, values)) + b"\x87"
