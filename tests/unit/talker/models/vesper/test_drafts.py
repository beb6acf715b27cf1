"""Guesses of vesper's drafter: which are taken, and what a log of other steps is worth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from talker.engine.engine import Engine
from talker.models.vesper.drafts import Tolerance, near_in_pitch
from talker.models.vesper.family import Vesper
from talker.models.vesper.frame import refusal
from talker.models.vesper.net import refusals
from talker.synthesis import synthesise
from tests.unit.talker.models.test_conformance import Bench, request
from tests.unit.talker.models.tiny_vesper import tiny as vesper
from ttscommon.engine.runtime import Finished
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Arrays, cut

ANY = torch.ones(48, 48, dtype=torch.bool)


def spoken(model: Vesper) -> Arrays:
    (one,) = synthesise(Engine(model, blocks=64, slots=1, metrics=Metrics()), [request("r")])
    return one.arrays


def tokens_of(moves: NDArray[Any]) -> int:
    """How far the pointer went."""
    return int(((moves & 1) + (moves >> 1)).sum())


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


def test_codes_are_near_when_their_pitch_is_in_every_hop() -> None:
    semitone = 4 * np.log(2) / 12
    table = torch.zeros(4, 2, 2)
    table[:3, :, 1] = 2.0  # the last is unvoiced
    table[1, 1, 0] = 0.5 * semitone
    table[2, 0, 0] = semitone
    near = near_in_pitch(table, 60.0)
    assert near.tolist() == [
        [True, True, False, False],
        [True, True, False, False],
        [False, False, True, False],
        [False, False, False, True],
    ]


def test_where_every_code_is_near_a_guessed_move_is_enough() -> None:
    strict, lenient = (
        spoken(vesper(tolerance=Tolerance(width=4, near=near))) for near in (None, ANY)
    )
    assert (lenient["window"] > 0).mean() > 2 * (strict["window"] > 0).mean()


def test_a_second_try_meets_more_guesses() -> None:
    once, often = (spoken(vesper(tolerance=Tolerance(width=4, tries=n))) for n in (1, 6))
    assert (often["window"] > 0).sum() > (once["window"] > 0).sum()


def test_without_leniency_steps_of_one_width_say_what_plain_steps_say() -> None:
    plain, fixed = spoken(vesper()), spoken(vesper(tolerance=Tolerance(width=4)))
    for name in ("codes", "move"):
        np.testing.assert_array_equal(plain[name], fixed[name])
    assert plain["window"].max() == 0 < fixed["window"].max()


@pytest.mark.parametrize("known", [1, 8, 30])
def test_a_log_of_plain_steps_is_gone_on_with(known: int) -> None:
    """Its last frame need not be what a step with guesses would have begun with."""
    logged = cut(spoken(vesper()), 0, known)
    bench = Bench(vesper(tolerance=Tolerance(width=4, tries=4, near=ANY)))
    heard = bench.open(request(), restored=logged)
    bench.run()
    assert isinstance(heard.end, Finished)
    moves = np.concatenate([logged["move"], heard.arrays["move"]])
    assert tokens_of(moves) == tokens_of(spoken(vesper())["move"])
