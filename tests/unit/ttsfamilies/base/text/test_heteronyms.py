"""Words that dictionaries lack, words of one spelling and several sounds, and what words change in
each other: sentences in `heteronyms.txt`.
"""

from pathlib import Path

import pytest

from ttsfamilies.base.text.frontend import EnglishFrontend
from ttsfamilies.base.text.heteronyms import ACCENTED, HETERONYMS, PHONES, choose
from ttsfamilies.base.text.ipa import SYMBOL_IDS


@pytest.mark.parametrize("word", ["rose", "expose", "pate", "mate", "divorce", "touche"])
def test_words_without_the_accent_are_left_alone(frontend: EnglishFrontend, word: str) -> None:
    accented = [spelling for spelling in ACCENTED if spelling.replace("é", "e") == word]
    said = frontend.phones(word).phones
    assert all(said != frontend.phones(one).phones for one in accented)


def test_phones_are_those_of_every_lexicon() -> None:
    listed = {phone for phones in PHONES.values() for phone in phones.split()}
    assert listed <= SYMBOL_IDS.keys()
    assert set(ACCENTED.values()) <= {*PHONES, "olay", "pair"}


SENTENCES = (Path(__file__).parent / "heteronyms.txt").read_text("utf-8").splitlines()
# A verb behind "we", and what only the sense of a sentence tells.
MISREAD = {"*tear* in his", "*bow* of the ship", "*import* cheese"}


def _said(frontend: EnglishFrontend, marked: str) -> str:
    index = len(marked[: marked.index("*")].split())
    utterance = frontend.phones(marked.replace("*", ""))
    word = utterance.words[index]
    return " ".join(phone.symbol for phone in utterance.phones[word.start : word.end])


@pytest.mark.parametrize("sentence", SENTENCES)
def test_sentences_have_the_right_reading(frontend: EnglishFrontend, sentence: str) -> None:
    marked, _, phones = sentence.partition(" => ")
    assert (_said(frontend, marked) == phones) is not any(part in marked for part in MISREAD)


@pytest.mark.parametrize("word", sorted(HETERONYMS))
def test_no_choice_waits_for_more_than_two_words_behind(word: str) -> None:
    found = HETERONYMS[word]
    tables = (found.near, found.before, found.after)
    for cue in {cue for table in tables for cues in table.values() for cue in cues}:
        assert choose(["so", word, "x", "x", cue], 1) == choose(["so", word, "x", "x"], 1)
