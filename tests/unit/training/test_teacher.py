"""The teacher through its shared library."""

import ctypes.util

import numpy as np
import pytest

from talker.text.symbols import PAUSE, SYMBOL_IDS
from voicetrain.synthesis import phone_of_hop
from voicetrain.teacher import HOP, LEAD_S, SAMPLE_RATE, VOICES, flite

pytestmark = pytest.mark.skipif(
    ctypes.util.find_library("flite_cmu_us_slt") is None, reason="flite is not installed"
)


@pytest.mark.parametrize("voice", VOICES)
def test_phones_begin_and_end_with_pauses_and_cover_the_sound(voice: str) -> None:
    spoken = flite().speak("Well, the dog's tale is over.", voice)
    assert spoken.phones[0].symbol == spoken.phones[-1].symbol == PAUSE
    assert all(phone.symbol in SYMBOL_IDS for phone in spoken.phones)
    assert list(spoken.ends_s) == sorted(spoken.ends_s)
    assert spoken.ends_s[-1] == pytest.approx(len(spoken.audio) / SAMPLE_RATE, abs=0.02)
    assert spoken.ends_s[0] == pytest.approx(LEAD_S, abs=0.01)


def test_words_carry_their_clitics_and_pauses_follow_punctuation() -> None:
    spoken = flite().speak("Well, the dog's tale.", "slt")
    assert spoken.words == ("well", "the", "dog's", "tale")
    initials = [phone.word for phone in spoken.phones if phone.initial]
    assert initials == [0, 1, 2, 3]
    assert [phone.symbol for phone in spoken.phones].count(PAUSE) == 3


def test_pitch_is_the_voices_own() -> None:
    text = "We were away a year ago."
    medians = {}
    for voice in VOICES:
        pitch = flite().speak(text, voice).f0
        medians[voice] = float(np.median(pitch[pitch > 0]))
    assert medians["slt"] > 140 > medians["rms"] > 60


def test_each_hop_has_the_phone_that_sounds_then() -> None:
    spoken = flite().speak("Say no more.", "rms")
    hops = len(spoken.audio) // HOP
    phones = phone_of_hop(spoken, hops)
    assert phones[0] == 0
    assert (np.diff(phones) >= 0).all()
    assert phones[-1] == len(spoken.phones) - 1
