"""Cleaned text keeps the places of its words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.requests.sourced import SourcedCleaner
from gateway.requests.text import TextCleaner, normalized
from ttscommon.wire.pieces import Text

LETTERS = "ab é\u0301e\ud83d\u00ad\t\u2028\ufeff1.가ᄀ"


def fed(*parts: str) -> list[Text]:
    cleaner, found, at = SourcedCleaner(), list[Text](), 0
    for part in parts:
        found += cleaner.feed(Text(part, at))
        at += len(part)
    return found + cleaner.feed(final=True)


def starts(pieces: list[Text]) -> dict[int, int]:
    """Where words begin in the cleaned text, and where they are said to stand."""
    places = [piece.source + offset for piece in pieces for offset in range(len(piece.text))]
    text = "".join(piece.text for piece in pieces)
    return {i: places[i] for i in range(len(text)) if text[i] != " " and text[i - 1 : i] in " "}


@pytest.mark.parametrize(
    ("text", "word", "place"),
    [
        ("one two", "two", 4),
        ("cafe\u0301 two", "two", 6),
        ("a\u00ad\u00adb\ufeff two", "two", 6),
        ("\U0001f389\u200b\u200b two", "two", 4),
        ("e\u0301 e\u0301 e\u0301 two", "two", 9),
    ],
)
def test_a_word_behind_what_cleaning_moves_keeps_its_place(
    text: str, word: str, place: int
) -> None:
    for pieces in (fed(text), fed(*text)):
        cleaned = "".join(piece.text for piece in pieces)
        assert starts(pieces)[cleaned.index(word)] == place


@given(st.lists(st.text(alphabet=LETTERS, max_size=8), max_size=6))
def test_the_cleaned_text_is_that_of_a_cleaner(parts: list[str]) -> None:
    plain = TextCleaner()
    cleaned = "".join(plain.feed(part) for part in parts) + plain.feed("", final=True)
    assert "".join(piece.text for piece in fed(*parts)) == cleaned


@given(st.text(alphabet="ab e\u0301\u00ad\t1.", max_size=30), st.integers(0, 30))
def test_every_word_is_found_where_it_is_said_to_stand(text: str, cut: int) -> None:
    pieces = fed(text[:cut], text[cut:])
    cleaned = "".join(piece.text for piece in pieces)
    for at, place in starts(pieces).items():
        if cleaned[at].isascii():
            assert normalized(text[place:])[:1] == cleaned[at]


def test_places_that_jump_are_kept() -> None:
    cleaner = SourcedCleaner()
    found = cleaner.feed(Text("one ", 0)) + cleaner.feed(Text("two", 20, 0.5))
    found += cleaner.feed(final=True)
    assert [(piece.text, piece.source, piece.rate) for piece in found] == [
        ("one ", 0, 1.0), ("tw", 20, 0.5), ("o", 22, 0.5),
    ]  # fmt: skip
