"""The program that starves the ends of synthetic checkpoints, and takeovers of what it starved."""

from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from talker.engine.engine import Engine
from talker.synthesis import SynthesizedSpeech, synthesise
from tests.benchmarks.runaways import (
    TEXT,
    Starved,
    families,
    guarded,
    measure,
    reference_of,
    voice_of,
)
from tests.unit.ttsfamilies.test_conformance import same
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Arrays, concatenate, cut
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttsfamilies.base.talker.base import Family
from ttsfamilies.base.talker.guard import LEFT, REDRAW
from ttsfamilies.base.talker.streams import CutShort

EVERY: Final = families(Path("voices/vesper"))
# Its text is told a word at a time, and lasts no longer than its words may.
BOUNDED: Final = "kyutai_tts"
# A sentence is given out whole, and nothing is left to draw again.
WHOLE: Final = "chatterbox"
DRAWN_AGAIN: Final = [one for one in EVERY if one.name not in (BOUNDED, WHOLE)]


@pytest.mark.slow
@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.name)
def test_all_runs_are_caught_and_left(one: Starved) -> None:
    (found,) = measure(one, 1, [None])
    if one.name == BOUNDED:
        assert found.caught == 0
        assert found.heard_s == found.unguarded_s
        return
    assert found.caught == found.runs == 1
    assert found.left >= 1
    assert found.redraws == 2 * found.left or one.name == WHOLE


@pytest.mark.slow
@pytest.mark.parametrize("one", DRAWN_AGAIN, ids=lambda one: one.name)
def test_a_talker_that_takes_over_in_the_middle_of_a_redraw_says_the_same(one: Starved) -> None:
    with guarded(one) as family:
        whole = speak(one, family)
        draws = whole.arrays[REDRAW] & (LEFT - 1)
        for number in (1, 2):
            (of,) = np.nonzero(draws == number)
            at = int(of[len(of) // 2])
            before = cut(whole.arrays, 0, at)
            heir = speak(one, family, before)
            same(concatenate([before, heir.arrays]), whole.arrays)
            # Of an utterance that was left before, the log does not have the word.
            assert heir.cut_short in (whole.cut_short, CutShort())
            assert whole.cut_short is not None


def speak(one: Starved, family: Family, restored: Arrays | None = None) -> SynthesizedSpeech:
    """To a listener who can wait."""
    engine = Engine(
        family, slots=1, blocks=4096, metrics=Metrics(), clock=partial(next, count(step=1e-6))
    )
    voice, sampling = voice_of(one, family), Sampling(top_k=one.top_k)
    request = SpeechRequest("r", "m", voice, TEXT, seed=1, sampling=sampling)
    known = {} if restored is None else {"r": restored}
    (spoken,) = synthesise(engine, [request], known, reference_of(family))
    return spoken
