"""Words that dictionaries lack, and words of one spelling and several sounds."""

from pathlib import Path

import pytest

from ttsfamilies.base.text.frontend import EnglishFrontend
from ttsfamilies.base.text.heteronyms import ACCENTED, HETERONYMS, PHONES, choose
from ttsfamilies.base.text.ipa import SYMBOL_IDS


@pytest.mark.parametrize(
    ("text", "phones"),
    [
        ("Beyoncé", "b iy0 y aa1 n s ey0"),
        ("Mbappé", "eh0 m b ae1 p ey0"),
        ("déjà vu", "d ey0 zh aa1 v uw1"),
        ("Timothée", "t ih1 m ax0 th iy0"),
        ("Xi", "sh iy1"),
        ("Goethe", "g er1 t ax0"),
        ("README", "r iy1 d m iy0"),
        ("Exposé", "eh0 k s p ow0 z ey1"),
        ("rosé,", "r ow0 z ey1"),
        ("a jalapeño", "ac0 hh aa0 l ax0 p ey1 n y ow0"),
    ],
)
def test_is_said_as_its_people_say_it(frontend: EnglishFrontend, text: str, phones: str) -> None:
    said = " ".join(phone.symbol for phone in frontend.phones(text).phones[1:-1])
    assert said == phones


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
