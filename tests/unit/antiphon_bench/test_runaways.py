"""The program that starves the ends of synthetic checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon_bench.runaways import Starved, families, measure

EVERY = families(Path("voices/vesper"))


@pytest.mark.slow
@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.name)
def test_all_runs_are_caught_and_left(one: Starved) -> None:
    (found,) = measure(one, 1, [None])
    assert found.caught == found.runs == 1
    assert found.left >= 1
    assert found.redraws == 2 * found.left or one.name == "chatterbox"  # whole sentences
