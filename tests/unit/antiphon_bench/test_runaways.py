"""The program that starves the ends of synthetic checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon_bench.runaways import Starved, families, measure

EVERY = families(Path("voices/vesper"))


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(one, id=one.name, marks=[] if one.name == "pocket_tts" else pytest.mark.slow)
        for one in EVERY
    ],
)
def test_all_runs_are_caught_and_left(one: Starved) -> None:
    (found,) = measure(one, 1, [None])
    assert found.caught == found.runs == 1
    assert found.heard_s < found.unguarded_s
