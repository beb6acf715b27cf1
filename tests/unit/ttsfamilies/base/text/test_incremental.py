"""Text that comes letter by letter is read as the whole text is, and no later than it must be."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.random_cases import examples
from ttsfamilies.base.text.normalize import PAUSE_MARK, Normalizer
from ttsfamilies.base.text.segment import FIRST_CLAUSE_WORDS, Segmenter, utterances

TABLES = {
    table.stem: [line.partition(" => ")[0] for line in table.read_text("utf-8").splitlines()]
    for table in sorted((Path(__file__).parent / "cases").glob("*.txt"))
    if table.stem != "british"
}
WRITTEN = [written for table in TABLES.values() for written in table]
every_table = pytest.mark.parametrize("table", TABLES)
WORDS_BEYOND = 2


def _spoken(normalizer: Normalizer, *texts: str) -> list[str]:
    found = [word for text in texts for one in normalizer.words(text) for word in one.spoken]
    return [word for word in found if word != PAUSE_MARK]


def _fed(text: str, cuts: list[int]) -> list[str]:
    """The utterances of a text that comes in pieces."""
    segmenter, found = Segmenter(), []
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        found += segmenter.feed(text[start:end])
    return found + segmenter.feed("", final=True)


@every_table
def test_every_cut_gives_the_reading_of_the_whole(table: str) -> None:
    for written in TABLES[table]:
        text = f"In the old town we met {written} and then we left."
        whole = utterances(text)
        assert _fed(text, list(range(1, len(text)))) == whole
        for cut in range(1, len(text)):
            assert _fed(text, [cut]) == whole, (text, cut)


@every_table
def test_no_cut_tears_apart_what_is_read_together(normalizer: Normalizer, table: str) -> None:
    for written in TABLES[table]:
        if not re.search(r"[.!?]\W* [A-Z]", written):
            text = f"We were told of {written}"
            assert _spoken(normalizer, *utterances(text)) == _spoken(normalizer, text)


TEXTS = st.lists(st.sampled_from(WRITTEN), min_size=1, max_size=8).map(" and then. ".join)


@examples(200)
@given(TEXTS, st.data())
def test_pieces_of_any_size_are_read_as_the_whole(text: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=12).map(sorted))
    assert _fed(text, cuts) == utterances(text)


@examples(200)
@given(TEXTS)
def test_an_utterance_is_out_two_words_behind_its_end(text: str) -> None:
    """Where a mark ends it; one without a mark is cut by its length."""
    position, ends = 0, []
    for utterance in utterances(text):
        position = text.index(utterance, position) + len(utterance)
        ends.append(position)
    for count, end in enumerate(ends[:-1], 1):
        if not text[:end].endswith((".", "!", "?", ",", ";", ":")):
            continue
        beyond = re.compile(rf"(?:\s+\S+){{0,{WORDS_BEYOND}}}\s*").match(text, end)
        assert beyond is not None
        assert len(Segmenter().feed(text[: beyond.end()] + " ")) >= count


def test_a_state_behind_a_town_is_waited_for_and_nothing_else() -> None:
    assert Segmenter().feed("We moved to sunny Boston, MA") == []
    assert Segmenter().feed("We moved to sunny Boston, Ma") == ["We moved to sunny Boston,"]
    assert Segmenter().feed("We moved to sunny Boston, I ") == ["We moved to sunny Boston,"]
    assert 5 in FIRST_CLAUSE_WORDS
