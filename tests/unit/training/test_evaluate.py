"""The measures themselves."""

import numpy as np
import pytest

from talker.text.frontend import Utterance, Word
from voicetrain.evaluate import sentences_of, timing_errors, word_starts
from voicetrain.recognise import Heard, character_error_rate, normal_text, word_error_rate


def test_texts_are_compared_without_case_and_punctuation() -> None:
    assert normal_text("It's half-past(2) NINE, I cannot!") == "it's half past nine i can not"


def test_error_rates_count_words_and_characters() -> None:
    rate = word_error_rate(["one two three four"], ["one too three four"])
    assert rate.value == pytest.approx(0.25)
    assert character_error_rate(["ab cd"], ["ab cx"]).value == pytest.approx(0.2)


def test_an_interval_holds_its_rate() -> None:
    said = ["a b c d"] * 40
    heard = ["a b c d"] * 30 + ["a b c"] * 10
    rate = word_error_rate(said, heard)
    assert rate.low < rate.value < rate.high


def test_every_voice_reads_as_much() -> None:
    sentences = sentences_of([str(i) for i in range(30)], voices_each=1)
    assert [sum(s.voice == v for s in sentences) for v in range(3)] == [10, 10, 10]
    thrice = sentences_of(["a"], voices_each=3)
    assert {s.voice for s in thrice} == {0, 1, 2}


def test_a_word_starts_when_the_pointer_reaches_it() -> None:
    utterance = Utterance((), (Word("Hi,", 1, 3), Word("you.", 4, 6)))
    pointer = np.array([0, 0, 1, 2, 3, 5, 7])
    assert word_starts(utterance, pointer) == [("hi", 0.08), ("you", 0.2)]


def test_times_are_compared_word_by_word_where_the_recogniser_agrees() -> None:
    heard = Heard("", (("one", 0.10, 0.2), ("too", 0.3, 0.4), ("three", 0.52, 0.7)))
    told = [("one", 0.08), ("two", 0.3), ("three", 0.5)]
    assert timing_errors(told, heard) == pytest.approx([0.02, 0.02])
