"""How long a request is waited for."""

import pytest

from gateway.errors import InputTimeout, InputTooSlow, SynthesisTimeout
from gateway.keys import TextLimits
from gateway.requests.incremental import IncrementalText
from gateway.requests.waiting import RecordTimeouts
from gateway.settings import GatewaySettings

SETTINGS = GatewaySettings(
    first_audio_timeout_s=15.0, stall_timeout_s=30.0, input_timeout_s=60.0, coalesce_s=0.0
)


LIMITS = TextLimits(pause_s=60.0, most_s=900.0, least_per_s=0.2)


def text(touched_s: float, *, complete: bool) -> IncrementalText:
    found = IncrementalText(100)
    if complete:
        found.finish()
    found.began_s = found.touched_s = touched_s
    return found


def typed(characters: int, began_s: float, touched_s: float) -> IncrementalText:
    found = IncrementalText(10_000)
    found.add("x" * characters)
    found.began_s, found.touched_s = began_s, touched_s
    return found


def left_s(known: IncrementalText | None, last_s: float, first: bool, now_s: float) -> float:
    return RecordTimeouts(SETTINGS, LIMITS, known, last_s, first).left_s(now_s)


def test_the_first_sound_is_waited_for_less_long_than_the_next() -> None:
    assert left_s(None, 100.0, True, 110.0) == 5.0
    assert left_s(None, 100.0, False, 110.0) == 20.0


def test_while_text_is_coming_only_its_writer_is_waited_for() -> None:
    typing = text(200.0, complete=False)
    assert left_s(typing, 100.0, False, 210.0) == 50.0
    assert left_s(typing, 100.0, True, 261.0) < 0


def test_a_text_has_so_long_in_all() -> None:
    steady = typed(1000, 0.0, 890.0)
    assert left_s(steady, 890.0, False, 890.0) == 10.0
    error = RecordTimeouts(SETTINGS, LIMITS, steady, 890.0, False).exhausted()
    assert isinstance(error, InputTimeout)
    assert "not complete after 900 s" in error.message
    assert "ANTIPHON_MAX_TEXT_S" in error.message


@pytest.mark.parametrize(("characters", "ends_s"), [(2, 60.0), (11, 60.0), (20, 100.0)])
def test_a_text_has_to_come_at_a_least_rate_after_its_first_minute(
    characters: int, ends_s: float
) -> None:
    slow = typed(characters, 0.0, 50.0)
    assert left_s(slow, 50.0, False, 55.0) == ends_s - 55.0
    error = RecordTimeouts(SETTINGS, LIMITS, slow, 50.0, False).exhausted()
    assert isinstance(error, InputTooSlow)
    assert f"{characters} characters came in {ends_s:g} s" in error.message
    assert "ANTIPHON_LEAST_CHARACTERS_PER_MINUTE" in error.message


def test_without_a_least_rate_only_pauses_and_the_whole_are_bounded() -> None:
    limits = TextLimits(60.0, 900.0, 0.0)
    assert RecordTimeouts(SETTINGS, limits, typed(1, 0.0, 50.0), 0.0, False).left_s(55.0) == 55.0


def test_text_that_came_late_is_given_its_time_to_be_spoken() -> None:
    done = text(200.0, complete=True)
    assert left_s(done, 100.0, False, 210.0) == 20.0
    assert left_s(done, 205.0, False, 210.0) == 25.0


@pytest.mark.parametrize(
    ("known", "first", "kind", "words"),
    [
        (text(0.0, complete=False), True, InputTimeout, "no text came for 60 s"),
        (None, True, SynthesisTimeout, "no audio came in 15 s"),
        (text(0.0, complete=True), False, SynthesisTimeout, "no more audio came for 30 s"),
    ],
)
def test_the_error_says_who_was_waited_for(
    known: IncrementalText | None, first: bool, kind: type[Exception], words: str
) -> None:
    error = RecordTimeouts(SETTINGS, LIMITS, known, 0.0, first).exhausted()
    assert isinstance(error, kind)
    assert error.message == words
