import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttscommon.books import (
    Book,
    BookPassage,
    BookPauses,
    Cast,
    Chapter,
    InvalidBook,
    parse_cast,
    portions,
)
from ttscommon.books.book import MOST_PORTION_CHARS, cut

SENTENCE = "The lamps are lit along the wall. "


def test_a_portion_is_a_paragraph_with_the_silence_behind_it() -> None:
    book = Book(
        *("T", "", "", None),
        (
            Chapter("A", (BookPassage("One."), BookPassage("Two.", "Ann"))),
            Chapter("B", (BookPassage("Three."), BookPassage("Four."))),
        ),
    )
    found = [(one.chapter, one.text, one.speaker, one.pause_s) for one in portions(book)]
    assert found == [
        (0, "One.", None, 0.5),
        (0, "Two.", "Ann", 2.0),
        (1, "Three.", None, 0.5),
        (1, "Four.", None, 0.0),
    ]


@pytest.mark.parametrize("marks", [".", ".**"])
def test_a_long_paragraph_is_cut_behind_sentences_without_silence_within(marks: str) -> None:
    long = BookPassage((SENTENCE.replace(".", marks) * 100).strip())
    book = Book("T", "", "", None, (Chapter("A", (long, BookPassage("End."))),))
    *parts, end = portions(book, BookPauses(1.0))
    assert len(parts) == 3
    assert [one.pause_s for one in parts] == [0.0, 0.0, 1.0]
    assert all(one.text.endswith(f"wall{marks}") for one in parts)
    assert end.text == "End."


@given(st.text(st.sampled_from('ab .!?"“”'), min_size=1, max_size=200), st.integers(1, 60))
def test_cutting_loses_nothing_but_space(text: str, times: int) -> None:
    parts = cut(text * times)
    assert "".join("".join(parts).split()) == "".join((text * times).split())
    assert all(len(part) <= MOST_PORTION_CHARS for part in parts)


def test_a_cast_gives_voices_to_names_in_any_case() -> None:
    cast = parse_cast("# who\nAnn Wright = low # warm\n\nnarrator=calm\n")
    assert [cast.voice(name) for name in ("ANN WRIGHT", "Bob", None)] == ["low", "calm", "calm"]
    assert Cast().voice("Ann") is None


@pytest.mark.parametrize("line", ["Ann", "= low", "Ann =", "A: b = low"])
def test_a_line_of_a_cast_that_says_nothing_is_refused(line: str) -> None:
    with pytest.raises(InvalidBook, match="line 2 of the cast is not `Name = voice`"):
        parse_cast(f"Bob = high\n{line}")


@pytest.mark.parametrize("seconds", [-1.0, 61.0, float("nan")])
def test_a_pause_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="0 to 60"):
        BookPauses(paragraph_s=seconds)
