"""Cleaned text keeps the places of its words."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.requests.text import (
    SourcedCleaner,
    clean,
    normalized,
    unread_scripts,
)
from ttscommon.wire.errors import NothingToSay, TextTooLong
from ttscommon.wire.pieces import Text

ANYTHING = st.text(st.characters(exclude_categories=()))
TRICKY = st.text(
    st.sampled_from(
        "aeé \u0301\u0323\u0327ᄀ가\u1161\u11a8\u09c7\u09be.\n\x07\ud83d\ude00\u00ad\t\u2028\ufeff1"
    )
)


def test_text_becomes_nfc_without_control_characters() -> None:
    assert clean("  cafe\u0301\x07\tau\nlait\u200b ", 100) == "café au lait"


@pytest.mark.parametrize(
    "text", ["", " ", "\x00\x01", "😀🎉", "...", "—", "\u200b\ufeff", "\ud83d"]
)
def test_text_without_a_sound_is_nothing_to_say(text: str) -> None:
    with pytest.raises(NothingToSay):
        clean(text, 100)


@pytest.mark.parametrize("text", ["a", "7", "$", "50%", "你好", "é", "😀 ok"])
def test_text_with_a_sound_is_kept(text: str) -> None:
    assert clean(text, 100) == text


def test_the_limit_counts_what_was_sent() -> None:
    assert clean("a" * 100, 100)
    with pytest.raises(TextTooLong) as caught:
        clean("a" * 101, 100)
    assert caught.value.param == "input"


def fed(*parts: str) -> list[Text]:
    cleaner, found, at = SourcedCleaner(), list[Text](), 0
    for part in parts:
        found += cleaner.feed(Text(part, at))
        at += len(part)
    return found + cleaner.feed(final=True)


def said(pieces: list[Text]) -> str:
    return "".join(piece.text for piece in pieces)


@given(ANYTHING)
def test_whatever_comes_leaves_as_valid_text(text: str) -> None:
    cleaned = normalized(text)
    cleaned.encode()
    assert unicodedata.is_normalized("NFC", cleaned)
    controls = {char for char in cleaned if unicodedata.category(char) == "Cc"}
    assert controls <= {"\n", "\t"}


@given(ANYTHING | TRICKY, st.lists(st.integers(0, 30)))
def test_pieces_clean_to_the_same_as_the_whole(text: str, cuts: list[int]) -> None:
    parts, start = [], 0
    for cut in sorted(cuts):
        parts.append(text[start:cut])
        start = max(start, cut)
    assert said(fed(*parts, text[start:])) == normalized(text)


def test_a_finished_word_is_not_held_back() -> None:
    cleaner = SourcedCleaner()
    assert said(cleaner.feed(Text("Hello, ", 0))) == "Hello, "
    assert said(cleaner.feed(Text("world", 7))) == "worl"
    assert said(cleaner.feed(Text(".", 12))) == "d."


def test_a_mark_joins_across_what_is_dropped() -> None:
    assert said(fed("A\b", "\u0323")) == "\u1ea0"


@pytest.mark.parametrize(
    ("text", "scripts"),
    [
        ("Hello, world", []),
        ("café, Москва, Αθήνα, 🎉", []),
        ("Say 你好 and مرحبا, then 你好", ["Han", "Arabic"]),
        ("नमस्ते สวัสดี שלום こんにちは", ["Devanagari", "Thai", "Hebrew", "Hiragana"]),
    ],
)
def test_scripts_that_an_english_voice_leaves_out_are_named(text: str, scripts: list[str]) -> None:
    assert unread_scripts(text) == scripts


def test_lines_and_cells_keep_their_ends_however_they_are_written() -> None:
    written = "one\r\ntwo\u2028three\x0cfour\x85five\u2029six\tseven\x0beight"
    assert normalized(written) == "one \ntwo\nthree\nfour\nfive\n\nsix\tseven eight"


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
