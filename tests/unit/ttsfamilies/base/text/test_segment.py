"""Utterances of a text, as soon as they are certain, and which line breaks end them.

Text that comes letter by letter is read as the whole text is, and no later than it must be.
"""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.random_cases import examples
from tests.unit.ttsfamilies.base.text.test_normalize import CASES
from ttsfamilies.base.text.normalize import PAUSE_MARK, Normalizer
from ttsfamilies.base.text.segment import LONGEST_WORDS, Segmenter, utterances


@pytest.mark.parametrize(
    "text",
    [
        *("Dr. Smith is in.", "Bring fruit, e.g. apples.", "It costs 3.5 dollars.", "Hello"),
        *("The U.S. Army is here.", "We met on May 3, 2024 in Rome."),
        *("He left at 5 p.m. and slept.", "it goes on\nhere", "Well, yes"),
        "one two three four five six seven eight nine ten eleven twelve thirteen, fourteen",
        *("We met Dr.\nSmith", "this is the\nend", "It was of\nno use"),
        # An abbreviation ends no sentence because a bracket or Markdown stands behind it.
        *("Bring fruit (apples etc.) and go.", "Fruit (apples etc.) And go.", "The (U.S.) Army"),
        *("He left (at 5 p.m.) Then he slept.", "We saw (Dr.) Smith.", "(ed.) Smith wrote it."),
        *("See (eq.) 3 and (Eq.) Four.", "(approx.) 10", "[e.g.] Apples", 'Fruit ("etc.") Then.'),
        *("**Dr.** Smith", "*Mr.* Smith", "**Fig.** 3 is", "**1.** First", "(1.) First"),
        *("**Note.** see this", "(Yes!) he said.", "It takes approx. 10 days.", "In vol. 3"),
    ],
)
def test_does_not_cut_inside_a_sentence(text: str) -> None:
    """A first clause that is short or late does not go early."""
    assert utterances(text) == [text]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hi there. How are you? Fine!  Good.", ["Hi there.", "How are you?", "Fine!", "Good."]),
        (
            'He left (it was "odd.") “They say ‘no!’” “Why?” "(Why?)" he said. "Odd!") "Oh!"',
            [
                *('He left (it was "odd.")', "“They say ‘no!’”", "“Why?”", '"(Why?)" he said.'),
                *('"Odd!")', '"Oh!"'),
            ],
        ),
        (
            "**Bold one.** *Is it?* _It was._ `So.` (It was.) [Yes!] {Odd.} He is (I think.) So",
            [
                *("**Bold one.**", "*Is it?*", "_It was._", "`So.`", "(It was.)", "[Yes!]"),
                *("{Odd.}", "He is (I think.)", "So"),
            ],
        ),
        (
            "If you like it here, stay a little, or come back, any time you want.",
            ["If you like it here,", "stay a little, or come back, any time you want."],
        ),
        (
            "A list\n\n- one thing\n- two things\n1. First step. 2. Second",
            ["A list", "- one thing", "- two things", "1. First step.", "2. Second"],
        ),
    ],
)
def test_cuts_behind_sentences_items_and_the_first_clause(text: str, expected: list[str]) -> None:
    assert utterances(text) == expected


@pytest.mark.parametrize(
    ("text", "out"),
    [
        ("If you like it here, s", ["If you like it here,"]),
        # A state behind a town is waited for, and nothing else.
        ("We moved to sunny Boston, MA", []),
        ("We moved to sunny Boston, Ma", ["We moved to sunny Boston,"]),
        ("We moved to sunny Boston, I ", ["We moved to sunny Boston,"]),
    ],
)
def test_a_first_clause_is_out_before_the_sentence_is_complete(text: str, out: list[str]) -> None:
    assert Segmenter().feed(text) == out


def test_long_text_without_punctuation_is_cut_between_words() -> None:
    assert [len(part.split()) for part in utterances("word " * 100)] == [30, 30, 30, 10]


def test_long_sentences_are_cut_at_a_clause_mark_or_a_joining_word() -> None:
    marked = ["w"] * 50
    marked[24] = "mark,"
    assert utterances(" ".join(marked))[0].endswith("mark,")
    joined = ["w"] * 50
    joined[27] = "and"
    assert utterances(" ".join(joined))[1].startswith("and")


def test_numbers_count_as_the_words_they_are_spoken_as() -> None:
    parts = utterances("555-123-4567 " * 20)
    assert {len(part.split()) for part in parts} == {5}
    assert max(len(part) for part in utterances("7" * 1000)) == 40


def test_a_word_without_end_does_not_wait_for_ever() -> None:
    assert len(Segmenter().feed("x" * 100_000)) > 0


def test_feeding_after_the_end_is_an_error() -> None:
    segmenter = Segmenter()
    segmenter.feed("Done.", final=True)
    with pytest.raises(ValueError):
        segmenter.feed("More.")


WORDS = """
Hello Dr. Smith e.g. 3.5 and, (so) "Stop." (So.) **So.** (etc.) yes! no? 1. - * ... a.m. U.S.
then; word 🎉 end. — It's
"""
TOKENS = [*WORDS.split(), "", "\n", "\n\n", "x" * 201]
TEXTS = st.lists(st.sampled_from(TOKENS), max_size=120).map(" ".join) | st.text(max_size=300)
TABLES = {kind: [written for written, _ in CASES[kind]] for kind in CASES if kind != "british"}
WRITTEN = [written for table in TABLES.values() for written in table]
TABLED = st.lists(st.sampled_from(WRITTEN), min_size=1, max_size=8).map(" and then. ".join)
every_table = pytest.mark.parametrize("table", TABLES)


def _fed(text: str, cuts: list[int]) -> list[str]:
    """The utterances of a text that comes in pieces."""
    segmenter, found = Segmenter(), []
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        found += segmenter.feed(text[start:end])
    return found + segmenter.feed("", final=True)


@examples(300)
@given(TEXTS | TABLED, st.data())
def test_pieces_of_any_size_are_read_as_the_whole(text: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=20).map(sorted))
    assert _fed(text, cuts) == utterances(text)


@every_table
def test_every_cut_gives_the_reading_of_the_whole(table: str) -> None:
    for written in TABLES[table]:
        before = "In the old town we met "
        text = f"{before}{written} and then we left."
        whole = utterances(text)
        assert _fed(text, list(range(1, len(text)))) == whole
        for cut in range(len(before), len(text) - 10):
            assert _fed(text, [cut]) == whole, (text, cut)


@every_table
def test_no_cut_tears_apart_what_is_read_together(normalizer: Normalizer, table: str) -> None:
    def spoken(*texts: str) -> list[str]:
        words = [word for text in texts for one in normalizer.words(text) for word in one.spoken]
        return [word for word in words if word != PAUSE_MARK]

    for written in TABLES[table]:
        if not re.search(r"[.!?]\W* [A-Z]", written):
            text = f"We were told of {written}"
            assert spoken(*utterances(text)) == spoken(text)


@examples(300)
@given(TEXTS)
def test_no_character_is_lost_and_no_utterance_too_long(text: str) -> None:
    parts = utterances(text)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(0 < len(part.split()) <= LONGEST_WORDS for part in parts)


@examples(200)
@given(TABLED)
def test_an_utterance_is_out_two_words_behind_its_end(text: str) -> None:
    """Where a mark ends it; one without a mark is cut by its length."""
    position, ends = 0, []
    for utterance in utterances(text):
        position = text.index(utterance, position) + len(utterance)
        ends.append(position)
    for count, end in enumerate(ends[:-1], 1):
        if not text[:end].endswith((".", "!", "?", ",", ";", ":")):
            continue
        beyond = re.compile(r"(?:\s+\S+){0,2}\s*").match(text, end)
        assert beyond is not None
        assert len(Segmenter().feed(text[: beyond.end()] + " ")) >= count


WRAPPED = """I wanted to let you know that the meeting has been moved to
Thursday afternoon, because the room that we had booked is no
longer available. We met Anna from the travel agency in New
York and she told us about
Portugal."""


def test_wrapped_text_is_read_on() -> None:
    assert [" ".join(one.split()) for one in utterances(WRAPPED)] == [
        "I wanted to let you know that the meeting has been moved to Thursday afternoon,"
        " because the room that we had booked is no longer available.",
        "We met Anna from the travel agency in New York and she told us about Portugal.",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Shopping list:\nMilk\nEggs\nbread and butter",
        "# A heading\nIts text",
        "Two roads diverged in a yellow wood,\nAnd sorry I could not travel both",
        "Anna: Where are you?\nBen: Here\nAnna: Wait",
        "| Name | Age |\n|---|---|\n| Ben | 4 |",
        "milk\neggs\nbread",
        "> quoted\n> and on",
        "Implemented the new cache for the gateway in two days\n- and one more thing",
        "Best wishes\nTom",
    ],
)
def test_lines_that_were_not_wrapped_end_where_they_end(text: str) -> None:
    assert utterances(text) == text.split("\n")
