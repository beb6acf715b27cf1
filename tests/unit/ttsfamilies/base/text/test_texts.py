"""Texts of the kinds that people send, and how a person would read them out.

`texts.txt`: `kind: text => reading`, with ⏎ for a line's end and ⇥ for a tab. A reading has the
marks at which phrases end, `|` where a line and `||` where a paragraph does.
"""

from pathlib import Path

import pytest

from ttscommon.wire.errors import NothingToSay
from ttscommon.wire.pieces import Pause, Text
from ttsfamilies.base.text.frontend import Substitution, Utterance, Word
from ttsfamilies.base.text.normalize import Normalizer
from ttsfamilies.base.text.reader import Reader

TABLE = Path(__file__).with_name("texts.txt").read_text("utf-8").splitlines()
TEXTS = [(text, read) for text, _, read in (line.partition(" => ") for line in TABLE)]


def read_out(normalizer: Normalizer, text: str) -> str:
    """What of a text is said, with its marks and the ends of its lines."""

    def said(utterance: str, given: tuple[Substitution, ...]) -> Utterance:
        found = normalizer.words(utterance)
        if not found:
            raise NothingToSay("nothing", param="input")
        spoken = " ".join(" ".join((*one.spoken, one.mark)).strip() for one in found)
        return Utterance((), (Word(spoken, 0, 0, "", found[0].start, found[-1].end),))

    reading, paragraph, end = "", False, 0
    for one in Reader(said, 0.25).read([Text(text, 0)], final=True):
        if isinstance(one, Pause):
            paragraph = True
            continue
        (word,) = one.words
        lines = "\n" in text[end : word.first] and reading != ""
        reading += " || " if paragraph else " | " if lines else " "
        reading, paragraph, end = reading + word.text, False, word.last
    return reading.strip()


def test_the_table_is_large() -> None:
    assert len(set(TEXTS)) >= 100
    assert len({text.partition(": ")[0] for text, _ in TEXTS}) >= 12


@pytest.mark.parametrize(("text", "read"), TEXTS)
def test_is_read_out_as_its_table_says(normalizer: Normalizer, text: str, read: str) -> None:
    written = text.partition(": ")[2].replace("⏎", "\n").replace("⇥", "\t")
    assert read_out(normalizer, written) == read
