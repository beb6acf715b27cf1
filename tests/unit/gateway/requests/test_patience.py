"""How long a request is waited for."""

from __future__ import annotations

import pytest

from gateway.errors import InputTimeout, SynthesisTimeout
from gateway.requests.incremental import IncrementalText
from gateway.requests.patience import Patience
from gateway.settings import GatewaySettings

SETTINGS = GatewaySettings(
    first_audio_timeout_s=15.0, stall_timeout_s=30.0, input_timeout_s=60.0, coalesce_s=0.0
)


def text(touched_s: float, *, complete: bool) -> IncrementalText:
    found = IncrementalText(100)
    if complete:
        found.finish()
    found.touched_s = touched_s
    return found


def left_s(known: IncrementalText | None, last_s: float, first: bool, now_s: float) -> float:
    return Patience(SETTINGS, known, last_s, first).left_s(now_s)


def test_the_first_sound_is_waited_for_less_long_than_the_next() -> None:
    assert left_s(None, 100.0, True, 110.0) == 5.0
    assert left_s(None, 100.0, False, 110.0) == 20.0


def test_while_text_is_coming_only_its_writer_is_waited_for() -> None:
    typing = text(200.0, complete=False)
    assert left_s(typing, 100.0, False, 210.0) == 50.0
    assert left_s(typing, 100.0, True, 261.0) < 0


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
    error = Patience(SETTINGS, known, 0.0, first).exhausted()
    assert isinstance(error, kind)
    assert error.message == words
