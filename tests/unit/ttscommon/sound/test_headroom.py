"""Headroom: nothing while chunks come in time, enough when they do not, and no more for ever."""

from __future__ import annotations

from random import Random

import pytest

from ttscommon.sound.headroom import Headroom


def test_nothing_is_asked_for_before_anything_is_known_or_while_chunks_come_in_time() -> None:
    headroom = Headroom()
    assert headroom.seconds == 0.0
    for _ in range(50):
        headroom.add(0.0, 0.08)
    assert headroom.seconds == 0.0


@pytest.mark.parametrize("delay_s", [0.05, 0.12, 0.2])
def test_streams_that_lack_sound_come_to_have_enough(delay_s: float) -> None:
    """Of 400 streams whose second chunk takes `delay_s` longer than usual, more or less."""
    dice, headroom, slacks = Random(1), Headroom(), []
    for _ in range(400):
        given_s = headroom.seconds
        slack_s = 0.07 + given_s - delay_s * dice.uniform(0.7, 1.3)
        headroom.add(given_s, slack_s)
        slacks.append(slack_s)
    assert min(slacks[50:]) > 0.0
    assert headroom.seconds < 2.0 * delay_s


def test_it_goes_when_the_trouble_has_gone() -> None:
    headroom = Headroom()
    for _ in range(20):
        headroom.add(headroom.seconds, headroom.seconds - 0.1)
    assert headroom.seconds > 0.1
    for _ in range(120):
        headroom.add(headroom.seconds, headroom.seconds + 0.08)
    assert headroom.seconds == 0.0


def test_a_machine_that_cannot_keep_up_does_not_make_first_sounds_later_without_end() -> None:
    headroom = Headroom()
    for _ in range(50):
        headroom.add(headroom.seconds, -3.0)
    assert headroom.seconds == 0.4
