"""Words of lexicons are found in text, wherever it was cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.requests.lexicon import (
    ClientLexicon,
    LexiconEntry,
    LexiconMatcher,
    compiled,
    packed,
    unpacked,
)
from tests.waits import grows_linearly
from ttscommon.wire.pieces import Pause, Phones, Piece, Text

BRANDS = [
    LexiconEntry("nginx", alias="engine x"),
    LexiconEntry("New York", alias="the Big Apple"),
    LexiconEntry("New York Times", alias="the paper"),
    LexiconEntry("WHO", alias="World Health Organization"),
    LexiconEntry("C++", alias="see plus plus"),
    LexiconEntry("don", alias="wrong"),
    LexiconEntry("t", alias="wrong"),
    LexiconEntry("tide", phones="taɪd"),
    LexiconEntry("fish", phones="F IH1 SH", alphabet="model"),
]


def found(lexicons: list[ClientLexicon], *parts: str) -> list[Piece]:
    lookup, pieces, at = LexiconMatcher(lexicons), list[Piece](), 0
    for part in parts:
        pieces += lookup.feed([Text(part, at)])
        at += len(part)
    return joined([*pieces, *lookup.feed((), final=True)])


def joined(pieces: list[Piece]) -> list[Piece]:
    whole: list[Piece] = []
    for piece in pieces:
        last = whole[-1] if whole else None
        if isinstance(piece, Text) and isinstance(last, Text):
            whole[-1] = Text(last.text + piece.text, last.source)
        else:
            whole.append(piece)
    return whole


def shown(pieces: list[Piece]) -> str:
    """Text, with what is said for words in brackets."""
    said = [
        piece.text if isinstance(piece, Text)
        else f"[{piece.alias or piece.phones}]" if isinstance(piece, Phones) else "-"
        for piece in pieces
    ]  # fmt: skip
    return "".join(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Use nginx now", "Use [engine x] now"),
        ("NGINX, Nginx.", "[engine x], [engine x]."),
        ("nginxx nginx2 xnginx", "nginxx nginx2 xnginx"),
        ("nginx's logs", "[engine x's] logs"),
        ("nginx’s", "[engine x's]"),
        ("who is the WHO?", "who is the [World Health Organization]?"),
        ("New  York", "[the Big Apple]"),
        ("New York Times", "[the paper]"),
        ("New York Time", "[the Big Apple] Time"),
        ("New Yor", "New Yor"),
        ("new york", "new york"),
        ("C++ and C+", "[see plus plus] and C+"),
        ("I don't", "I don't"),
        ("the tide's", "the [taɪdz]"),
        ("fish's", "[F IH1 SH ih0 z]"),
        ("nginx", "[engine x]"),
        ("", ""),
    ],
)
def test_words_are_found(text: str, said: str) -> None:
    lexicon = ClientLexicon(BRANDS)
    assert shown(found([lexicon], text)) == said
    assert shown(found([lexicon], *text)) == said


WORDS = st.sampled_from(["New", "York", " ", "Times", "'s", "nginx", "C", "+", ".", "don't", "x"])


@given(st.lists(WORDS, max_size=10).map("".join), st.data())
def test_where_the_text_was_cut_changes_nothing(text: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=5).map(sorted))
    ends = [*cuts, len(text)]
    parts = [text[start:end] for start, end in zip([0, *cuts], ends, strict=True)]
    lexicon = ClientLexicon(BRANDS)
    assert found([lexicon], *parts) == found([lexicon], text)


@given(st.lists(WORDS, max_size=10).map("".join))
def test_every_word_keeps_its_place(text: str) -> None:
    for piece in found([ClientLexicon(BRANDS)], text):
        assert isinstance(piece, Text | Phones)
        assert text[piece.source : piece.source + len(piece.text)] == piece.text


def test_an_earlier_lexicon_takes_precedence() -> None:
    first, second = ClientLexicon([LexiconEntry("nginx", alias="one")]), ClientLexicon(BRANDS)
    assert shown(found([first, second], "nginx WHO")) == "[one] [World Health Organization]"


def test_a_pause_ends_what_may_be_an_entry() -> None:
    pieces = LexiconMatcher([ClientLexicon(BRANDS)]).feed(
        [Text("New"), Pause(0.5), Text("York ")], final=True
    )
    assert shown(joined(pieces)) == "New-York "


def test_only_what_may_be_an_entry_is_held_back() -> None:
    lookup = LexiconMatcher([ClientLexicon(BRANDS)])
    assert shown(lookup.feed([Text("a plain word, New ")])) == "a plain word, "
    assert shown(lookup.feed([Text("hat ")])) == "New hat "


def test_entries_are_stored_and_compiled_once() -> None:
    content = packed(BRANDS)
    assert unpacked(content) == BRANDS
    assert compiled(content) is compiled(bytes(content))
    assert compiled(content).phonetic
    assert not ClientLexicon([LexiconEntry("a", alias="b")]).phonetic


def test_a_hostile_lexicon_takes_time_linear_in_the_text() -> None:
    """Entries that all begin alike, in a text of nothing but their beginnings."""
    lexicon = ClientLexicon([LexiconEntry("a " * count + "b", alias="x") for count in range(1, 5)])

    def look_through(count: int) -> None:
        text = "a " * count
        assert shown(found([lexicon], text)) == text

    assert grows_linearly(look_through, 1000)
