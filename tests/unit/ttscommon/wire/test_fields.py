"""Fields: what a row of a tensor may hold."""

import numpy as np
import pytest

from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.fields import Arrays, Field, checked, concatenate, cut, empty, rows

CODES = {"codes": Field((4,), "i2", 512)}
MEL = {"mel": Field((80,), "f4"), "voiced": Field((), "u1", 2)}


def test_arrays_that_fit_pass_and_take_the_declared_dtype() -> None:
    found = checked(CODES, {"codes": np.ones((3, 4), np.int32), "other": np.zeros(9)})
    assert found.keys() == {"codes"}
    assert found["codes"].dtype == np.int16


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((2, 3), np.int16),
        np.zeros((0, 4), np.int16),
        np.zeros(4, np.int16),
        np.full((1, 4), 512, np.int16),
        np.full((1, 4), -1, np.int16),
        np.zeros((1, 4), np.float32),
    ],
)
def test_ids_that_make_no_sense_are_refused(array: np.ndarray) -> None:
    with pytest.raises(MalformedMessage, match="codes"):
        checked(CODES, {"codes": array})


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"mel": np.zeros((1, 80), np.float32)}, "voiced"),
        ({"mel": np.zeros((2, 80), np.float32), "voiced": np.zeros(1, np.uint8)}, "differ"),
        ({"mel": np.full((1, 80), np.nan, np.float32), "voiced": np.zeros(1, np.uint8)}, "finite"),
    ],
)
def test_missing_unequal_or_infinite_fields_are_refused(arrays: Arrays, said: str) -> None:
    with pytest.raises(MalformedMessage, match=said):
        checked(MEL, arrays)


def test_arrays_are_cut_joined_and_counted_together() -> None:
    arrays = {"mel": np.arange(160.0).reshape(2, 80), "voiced": np.array([0, 1])}
    parts = [cut(arrays, 0, 1), cut(arrays, 1, 2)]
    joined = concatenate(parts)
    assert rows(joined) == 2
    np.testing.assert_array_equal(joined["mel"], arrays["mel"])
    assert rows(empty(MEL)) == 0
    assert rows({}) == 0


@pytest.mark.parametrize("bad", [{"shape": (0,)}, {"dtype": "f4", "limit": 3}])
def test_a_field_that_makes_no_sense_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        Field(**bad)  # type: ignore[arg-type]
