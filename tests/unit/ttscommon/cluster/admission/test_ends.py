"""When a refused caller should come back: once what is in its way is expected to have ended."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest

from ttscommon.cluster.admission import Ends


@dataclass
class Stream:
    characters: int
    began_s: float


def test_the_first_end_is_told_and_then_the_next() -> None:
    ends = Ends(character_s=0.1)
    streams = [Stream(300, 100.0), Stream(100, 100.0)]
    promised = [ends.promise("model m", streams, 102.0, 60.0) for _ in range(3)]
    assert promised == pytest.approx([8.0, 28.0, 36.0])
    assert ends.promise("other", streams, 102.0, 60.0) == pytest.approx(8.0)


def test_what_was_promised_is_forgotten_when_its_time_has_come() -> None:
    ends = Ends(character_s=0.1)
    assert ends.promise("m", [Stream(20, 0.0)], 0.0, 60.0) == pytest.approx(2.0)
    assert ends.promise("m", [Stream(20, 3.0)], 3.0, 60.0) == pytest.approx(2.0)


def test_a_stream_that_takes_longer_than_expected_may_end_any_moment() -> None:
    assert Ends(character_s=0.1).promise("m", [Stream(10, 0.0)], 60.0, 60.0) == 1.0


def test_nothing_is_in_the_way() -> None:
    assert Ends().promise("m", [], 0.0, 60.0) is None


def test_what_a_character_takes_is_learned() -> None:
    ends = Ends(character_s=0.06)
    for _ in range(40):
        ends.learn(100, 1.0)
    ends.learn(0, 50.0)
    assert ends.left_s(Stream(100, 0.0), 0.0) == pytest.approx(1.0, abs=0.01)


def test_nobody_stays_away_for_long_and_they_do_not_come_all_at_once() -> None:
    ends = Ends(character_s=0.1)
    told = [ends.promise("m", [Stream(300, 0.0)], 0.0, 6.0) for _ in range(20)]
    waits = sorted(one for one in told if one is not None)
    assert 3.0 <= waits[0] < waits[-1] <= 6.0
    assert max(after - before for before, after in pairwise(waits)) < 0.4
