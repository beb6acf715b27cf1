"""How written English is read: each file of `cases` is one kind's table.

`texts.txt` has whole texts: `kind: text => reading`, with ⏎ for a line's end and ⇥ for a tab. A
reading has the marks at which phrases end, `|` where a line and `||` where a paragraph does.
"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.random_cases import examples
from tests.waits import grows_linearly
from ttscommon.wire.errors import NothingToSay
from ttscommon.wire.pieces import Pause, Text
from ttsfamilies.base.text.frontend import Substitution, Utterance, Word
from ttsfamilies.base.text.normalize import PAUSE_MARK, Normalizer
from ttsfamilies.base.text.reader import Reader
from ttsfamilies.base.text.rules import british


def _rows(table: Path) -> list[tuple[str, str]]:
    lines = table.read_text("utf-8").splitlines()
    return [(written, said) for written, _, said in (line.partition(" => ") for line in lines)]


HERE = Path(__file__).parent
CASES = {table.stem: _rows(table) for table in sorted((HERE / "cases").glob("*.txt"))}


def spoken(normalizer: Normalizer, text: str, *, british: bool = False) -> str:
    words = normalizer.words(text, british=british)
    return " ".join(word for written in words for word in written.spoken)


@pytest.mark.parametrize("kind", CASES)
def test_is_read_as_its_table_says(normalizer: Normalizer, kind: str) -> None:
    read = [
        (written, spoken(normalizer, written, british=kind == "british"))
        for written, _ in CASES[kind]
    ]
    assert read == CASES[kind]


def test_characters_that_nobody_sees_are_left_out(normalizer: Normalizer) -> None:
    assert spoken(normalizer, "\u200bzero\u200dwidth bell\x07") == "zerowidth bell"


@pytest.mark.parametrize("text", ["", " \n", "🎉🎉", "...", "— - *", "日本語", "\u200b\ufeff"])
def test_says_nothing_where_nothing_is_to_be_said(normalizer: Normalizer, text: str) -> None:
    assert normalizer.words(text) == []


def test_keeps_words_as_written(normalizer: Normalizer) -> None:
    words = normalizer.words("Hello, 😀 it’s May 3, 2024!")
    assert [word.text for word in words] == ["Hello,", "it’s", "May 3, 2024!"]


@examples(300)
@given(
    st.text(max_size=200)
    | st.text(alphabet="aAbIVX019 .,:;-/$€%@#'\"()[]½²°–—\n\tkmx+=<>", max_size=60)
)
def test_any_text_becomes_lexicon_words(normalizer: Normalizer, text: str) -> None:
    allowed = frozenset("abcdefghijklmnopqrstuvwxyz'_")
    for written in normalizer.words(text):
        assert written.spoken
        assert written.text in " ".join(text.split())
        for word in written.spoken:
            assert word == PAUSE_MARK or (word and allowed.issuperset(word))


HOSTILE = (
    *("a", "1", "1,", "-", "(", "@a", "1.1", "A", "http://", "$1 ", "1/", "aA", "'s", "x@", "-1"),
    *("/a", "1:", "a=", "1 ", "a.", "\\a", "[pause", "1'", "^2", "I ", "1-a-", "Mon, ", "1E"),
)


@pytest.mark.parametrize("unit", HOSTILE)
def test_time_grows_linearly(normalizer: Normalizer, unit: str) -> None:
    assert grows_linearly(lambda length: normalizer.words((unit * length)[:length]), 2_000)


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


@pytest.mark.parametrize(("text", "read"), _rows(HERE / "texts.txt"))
def test_is_read_out_as_its_table_says(normalizer: Normalizer, text: str, read: str) -> None:
    written = text.partition(": ")[2].replace("⏎", "\n").replace("⇥", "\t")
    assert read_out(normalizer, written) == read


def test_some_countries_put_the_day_first() -> None:
    assert all(map(british, ("en-GB", "en-gb", "en_GB", "en-AU", "en-IN", "en-IE")))
    assert not any(map(british, ("en", "en-US", "en-CA", "", "de-DE", "gb")))
