"""Moves that a vesper talker may make, which guesses are held to as well."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ttsfamilies.vesper.frame import refusal
from ttsfamilies.vesper.net import refusals


def place(**changes: int) -> dict[str, NDArray[np.int64]]:
    told = {"pointer": 3, "tokens": 9, "held": 4, "least": 0, "longest": 8, **changes}
    return {name: np.array([value]) for name, value in told.items()}


@pytest.mark.parametrize(
    ("changes", "left", "allowed"),
    [
        ({}, 50, [0, 1, 2, 3]),
        ({"pointer": 8}, 50, [0, 2]),
        ({"held": 8}, 50, [1, 2, 3]),
        ({"held": 8, "pointer": 8}, 50, [2]),
        ({}, 5, [1, 2, 3]),
        ({"least": 6, "longest": 6}, 50, [0]),
    ],
)
def test_moves_stay_inside_and_leave_in_time(
    changes: dict[str, int], left: int, allowed: list[int]
) -> None:
    (row,) = refusal(place(**changes), np.array([left]))
    assert torch.isfinite(refusals()[int(row)]).nonzero().flatten().tolist() == allowed
