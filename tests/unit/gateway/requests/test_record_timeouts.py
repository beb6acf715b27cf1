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


def text(
    touched_s: float, *, characters: int = 0, began_s: float | None = None, complete: bool = False
) -> IncrementalText:
    found = IncrementalText(10_000)
    found.add("x" * characters)
    if complete:
        found.finish()
    found.began_s, found.touched_s = touched_s if began_s is None else began_s, touched_s
    return found


def waiting(
    known: IncrementalText | None,
    last_s: float,
    *,
    first: bool = False,
    limits: TextLimits = LIMITS,
) -> RecordTimeouts:
    return RecordTimeouts(SETTINGS, limits, known, last_s, first)


def test_the_first_sound_is_waited_for_less_long_than_the_next() -> None:
    assert waiting(None, 100.0, first=True).left_s(110.0) == 5.0
    assert waiting(None, 100.0).left_s(110.0) == 20.0


def test_while_text_is_coming_only_its_writer_is_waited_for() -> None:
    assert waiting(text(200.0), 100.0).left_s(210.0) == 50.0
    assert waiting(text(200.0), 100.0, first=True).left_s(261.0) < 0


def test_a_text_has_so_long_in_all() -> None:
    steady = waiting(text(890.0, characters=1000, began_s=0.0), 890.0)
    assert steady.left_s(890.0) == 10.0
    error = steady.exhausted()
    assert isinstance(error, InputTimeout)
    assert "not complete after 900 s" in error.message
    assert "ANTIPHON_MAX_TEXT_S" in error.message


@pytest.mark.parametrize(("characters", "ends_s"), [(2, 60.0), (11, 60.0), (20, 100.0)])
def test_a_text_has_to_come_at_a_least_rate_after_its_first_minute(
    characters: int, ends_s: float
) -> None:
    slow = text(50.0, characters=characters, began_s=0.0)
    assert waiting(slow, 50.0).left_s(55.0) == ends_s - 55.0
    error = waiting(slow, 50.0).exhausted()
    assert isinstance(error, InputTooSlow)
    assert f"{characters} characters came in {ends_s:g} s" in error.message
    assert "ANTIPHON_LEAST_CHARACTERS_PER_MINUTE" in error.message
    without = TextLimits(60.0, 900.0, 0.0)
    assert waiting(slow, 0.0, limits=without).left_s(55.0) == 55.0


def test_text_that_came_late_is_given_its_time_to_be_spoken() -> None:
    done = text(200.0, complete=True)
    assert waiting(done, 100.0).left_s(210.0) == 20.0
    assert waiting(done, 205.0).left_s(210.0) == 25.0


@pytest.mark.parametrize(
    ("known", "first", "kind", "words"),
    [
        (text(0.0), True, InputTimeout, "no text came for 60 s"),
        (None, True, SynthesisTimeout, "no audio came in 15 s"),
        (text(0.0, complete=True), False, SynthesisTimeout, "no more audio came for 30 s"),
    ],
)
def test_the_error_says_who_was_waited_for(
    known: IncrementalText | None, first: bool, kind: type[Exception], words: str
) -> None:
    error = waiting(known, 0.0, first=first).exhausted()
    assert isinstance(error, kind)
    assert error.message == words
