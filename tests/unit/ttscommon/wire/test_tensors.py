"""Rows of numbers: their types, their limits, and what is left of them."""

import msgspec
import numpy as np
import pytest
import torch

from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.messages import RowsPiece, decode_record, encode
from ttscommon.wire.tensors import MAX_ROWS_BYTES, FloatRows, RowDtype, narrowed, widened

ROWS = np.random.default_rng(1).standard_normal((5, 6)).astype(np.float32)
PLACES = [[i, i + 1, 2 * i] for i in range(5)]


@pytest.mark.parametrize(("dtype", "atol"), [("f4", 0.0), ("f2", 2e-3), ("bf16", 2e-2)])
def test_rows_survive_the_wire(dtype: RowDtype, atol: float) -> None:
    piece = RowsPiece("r", 7, FloatRows.of("context", ROWS, dtype, PLACES), epoch=3)
    found = decode_record(encode(piece))
    assert found == piece
    assert isinstance(found, RowsPiece)
    assert (found.start, found.end) == (7, 12)
    np.testing.assert_allclose(widened(found.rows.stored), ROWS, 0, atol)


def test_bf16_is_torchs() -> None:
    values = np.concatenate(
        [ROWS.ravel(), np.array([1.00390625, 1.01171875, -0.0, 3e38], np.float32)]
    )
    wanted = torch.from_numpy(values).bfloat16()
    found = widened(narrowed(values, "bf16"))
    np.testing.assert_array_equal(found, wanted.float().numpy())


def test_a_part_has_its_own_rows_places_and_checksum() -> None:
    whole = FloatRows.of("media", ROWS, "bf16", PLACES)
    part = RowsPiece("r", 2, whole).tail(4).rows
    np.testing.assert_array_equal(part.stored, whole.stored[2:])
    assert part.places == (2, 3, 4, 3, 4, 6, 4, 5, 8)
    assert part.crc32 != whole.crc32
    assert len(part) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"crc32": 1},
        {"shape": (5, 5)},
        {"shape": (0, 6), "data": b""},
        {"data": b"\0" * 119},
        {"dtype": "f2"},
        {"dtype": "f8"},
        {"kind": "sung"},
        {"kind": "said"},  # which has no places
        {"places": (1, 2)},
        {"places": (1 << 30,) * 15},
        {"shape": (-5, -6)},
    ],
    ids=str,
)
def test_rows_that_are_not_what_they_say_are_no_message(change: dict[str, object]) -> None:
    rows = msgspec.to_builtins(FloatRows.of("context", ROWS, "f4", PLACES), builtin_types=(bytes,))
    told = {"t": "rows_piece", "request_id": "r", "start": 0, "rows": {**rows, **change}, "v": 1}
    with pytest.raises(MalformedMessage):
        decode_record(msgspec.msgpack.encode(told))


def test_a_piece_is_bounded() -> None:
    wide = np.zeros((MAX_ROWS_BYTES // 4096 + 1, 1024), np.float32)
    with pytest.raises(ValueError, match="at most"):
        FloatRows.of("said", wide)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["f4", "f2", "bf16"])
def test_what_is_no_number_is_noticed(value: float, dtype: RowDtype) -> None:
    rows = ROWS.copy()
    assert FloatRows.of("said", rows, dtype).finite
    rows[2, 3] = value
    assert not FloatRows.of("said", rows, dtype).finite
