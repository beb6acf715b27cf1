"""Utterances of a text, and which line breaks end them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.random_cases import examples
from ttsfamilies.base.text.segment import LONGEST_WORDS, Segmenter, utterances


@pytest.mark.parametrize(
    "text",
    [
        "Dr. Smith is in.",
        "Bring fruit, e.g. apples.",
        "It costs 3.5 dollars.",
        "The U.S. Army is here.",
        "We met on May 3, 2024 in Rome.",
        "He left at 5 p.m. and slept.",
        "Hello",
    ],
)
def test_does_not_cut_inside_a_sentence(text: str) -> None:
    assert utterances(text) == [text]


def test_cuts_after_sentences() -> None:
    assert utterances("Hi there. How are you? Fine!  Good.") == [
        "Hi there.",
        "How are you?",
        "Fine!",
        "Good.",
    ]


def test_first_clause_goes_early_and_only_the_first() -> None:
    assert utterances("If you like it here, stay a little, or come back, any time you want.") == [
        "If you like it here,",
        "stay a little, or come back, any time you want.",
    ]


def test_a_short_or_late_first_clause_does_not_go_early() -> None:
    late = "one two three four five six seven eight nine ten eleven twelve thirteen, fourteen"
    assert utterances(late) == [late]
    assert utterances("Well, yes") == ["Well, yes"]


def test_a_first_clause_is_out_before_the_sentence_is_complete() -> None:
    assert Segmenter().feed("If you like it here, s") == ["If you like it here,"]


def test_blank_lines_and_list_items_begin_anew() -> None:
    assert utterances("A list\n\n- one thing\n- two things\n1. First step. 2. Second") == [
        "A list",
        "- one thing",
        "- two things",
        "1. First step.",
        "2. Second",
    ]


def test_a_line_break_within_a_sentence_does_not_cut() -> None:
    assert utterances("it goes on\nhere") == ["it goes on\nhere"]


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
Hello Dr. Smith e.g. 3.5 and, (so) "Stop." yes! no? 1. - * ... a.m. U.S. then; word 🎉 end. — It's
"""
TOKENS = [*WORDS.split(), "", "\n", "\n\n", "x" * 201]
TEXTS = st.lists(st.sampled_from(TOKENS), max_size=120).map(" ".join) | st.text(max_size=300)


@examples(300)
@given(TEXTS, st.lists(st.integers(1, 40), min_size=1, max_size=20))
def test_pieces_give_the_same_utterances_as_the_whole(text: str, sizes: list[int]) -> None:
    segmenter = Segmenter()
    pieces = []
    position = 0
    while position < len(text):
        size = sizes[position % len(sizes)]
        pieces += segmenter.feed(text[position : position + size])
        position += size
    pieces += segmenter.feed("", final=True)
    assert pieces == utterances(text)


@examples(300)
@given(TEXTS)
def test_no_character_is_lost_and_no_utterance_too_long(text: str) -> None:
    parts = utterances(text)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(0 < len(part.split()) <= LONGEST_WORDS for part in parts)


# Which line breaks end an utterance.


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


@pytest.mark.parametrize("text", ["We met Dr.\nSmith", "this is the\nend", "It was of\nno use"])
def test_a_line_that_cannot_end_there_goes_on(text: str) -> None:
    assert utterances(text) == [text]
