"""Words of one spelling and several sounds, by the words near them."""

import re
from pathlib import Path

import pytest

from ttsfamilies.base.text.frontend import EnglishFrontend
from ttsfamilies.base.text.heteronyms import HETERONYMS, choose

SENTENCES = (Path(__file__).parent / "heteronyms.txt").read_text("utf-8").splitlines()
LEAST = 0.9
# Those that were misread once: no other hit makes up for them.
FIXED = (
    *("He plays the *bass*", "reads *Polish*", "*desert* us", "She *dove*", "An *object*"),
    *("fresh *produce*", "*Excuse* me", "can *house*", "*minute* traces", "She *wound*"),
    *("*résumé*", "I *read* the", "*learned* scholar", "*blessed* saint", "often *rebel*"),
    *("plans *conflict*", "actors took a *bow*"),
)


def _said(frontend: EnglishFrontend, marked: str) -> str:
    index = len(marked[: marked.index("*")].split())
    utterance = frontend.phones(marked.replace("*", ""))
    word = utterance.words[index]
    return " ".join(phone.symbol for phone in utterance.phones[word.start : word.end])


def test_nine_of_ten_sentences_have_the_right_reading(frontend: EnglishFrontend) -> None:
    cases = [line.partition(" => ") for line in SENTENCES]
    right = [marked for marked, _, phones in cases if _said(frontend, marked) == phones]
    assert len(cases) >= 200
    assert len(right) / len(cases) >= LEAST


@pytest.mark.parametrize("sentence", [s for s in SENTENCES if any(f in s for f in FIXED)])
def test_words_that_were_misread_are_not(frontend: EnglishFrontend, sentence: str) -> None:
    marked, _, phones = sentence.partition(" => ")
    assert _said(frontend, marked) == phones


def test_many_words_have_both_their_readings_among_the_sentences() -> None:
    readings: dict[str, set[str]] = {}
    for line in SENTENCES:
        marked, _, phones = line.partition(" => ")
        found = re.search(r"\*(.+)\*", marked)
        assert found is not None
        readings.setdefault(found[1].lower(), set()).add(phones)
    assert sum(len(found) > 1 for found in readings.values()) >= 55


@pytest.mark.parametrize("word", sorted(HETERONYMS))
def test_no_choice_waits_for_more_than_two_words_behind(word: str) -> None:
    found = HETERONYMS[word]
    tables = (found.near, found.before, found.after)
    for cue in {cue for table in tables for cues in table.values() for cue in cues}:
        assert choose(["so", word, "x", "x", cue], 1) == choose(["so", word, "x", "x"], 1)
