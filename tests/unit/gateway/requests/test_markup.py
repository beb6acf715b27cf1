"""Markup: understood or dropped, wherever the text was cut."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.requests.markup import MarkupReader
from ttscommon.wire.pieces import Pause, Phones, Piece, Text


def ipa(word: str, phones: str) -> Phones:
    return Phones(word, phones, "ipa", optional=True)


def read(*parts: str) -> list[Piece]:
    reader = MarkupReader()
    pieces = [piece for part in parts for piece in reader.feed(part)]
    return joined([*pieces, *reader.feed("", final=True)])


def joined(pieces: list[Piece]) -> list[Piece]:
    found: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, Text) and found and isinstance(found[-1], Text):
            found[-1] = Text(found[-1].text + piece.text)
        else:
            found.append(piece)
    return found


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ('Wait.<break time="1.5s" />Go.', [Text("Wait."), Pause(1.5), Text("Go.")]),
        ("Wait.<break time='200ms'/>Go.", [Text("Wait."), Pause(0.2), Text("Go.")]),
        ("A<break/>B", [Text("A"), Pause(0.4), Text("B")]),
        ('A<break time="0s"/>B', [Text("AB")]),
        ('A<break time="3600s"/>B', [Text("A"), Pause(10.0), Text("B")]),
        ('A<break time="1.2.3s"/>B', [Text("AB")]),
        (
            'the <phoneme alphabet="ipa" ph="ta&#x26A;d">tide</phoneme> in',
            [Text("the "), ipa("tide", "taɪd"), Text(" in")],
        ),
        ("<phoneme ph='taɪd'>tide</phoneme >", [ipa("tide", "taɪd")]),
        (
            "<phoneme alphabet='cmu-arpabet' ph='T AY1 D'>tide</phoneme>",
            [Phones("tide", "T AY1 D", "model", optional=True)],
        ),
        ('<phoneme alphabet="x-sampa" ph="taId">tide</phoneme> in', [Text("tide in")]),
        ('<phoneme alphabet="ipa">tide</phoneme> in', [Text("tide in")]),
        ('<phoneme ph="taɪd">tide <break/>in', [Text("tide "), Pause(0.4), Text("in")]),
        ('<phoneme ph="taɪd"/>in', [Text("in")]),
        ('<emotion value="sad" /><speed ratio="1.2"/>Hello', [Text("Hello")]),
        ("<speak><spell>AB</spell></speak>", [Text("AB")]),
        ("say <<m|ˈ|ɛ|t>> now", [Text("say "), ipa("", "mˈɛt"), Text(" now")]),
        ("say <<>> now", [Text("say  now")]),
        ('\\{"word": "live", "pronounce": "laɪv"\\} show', [ipa("live", "laɪv"), Text(" show")]),
        ('\\{"word": "live"\\} show', [Text("live show")]),
        ("\\{nonsense\\} show", [Text(" show")]),
        ("2 < 3 and 5 > 4", [Text("2 < 3 and 5 > 4")]),
        ("a<b", [Text("a<b")]),
        ("I <3 you", [Text("I <3 you")]),
        ("ends in <", [Text("ends in <")]),
        ("back\\slash", [Text("back\\slash")]),
    ],
)
def test_markup_is_understood_or_dropped(text: str, pieces: list[Piece]) -> None:
    assert read(text) == pieces
    assert read(*text) == pieces


SCRAPS = st.sampled_from(
    [
        "<phoneme ",
        'ph="a"',
        ">",
        "word",
        "</phoneme>",
        "<",
        "/",
        "<break/>",
        "\\{",
        "\\}",
        "<<",
        " ",
    ]
)


@given(st.lists(st.text(alphabet='<>/\\{}"ab =break1s|', max_size=30) | SCRAPS, max_size=12))
@example(["<a", "\\{", ">", "\\}"])
@example(["\\{", "<a", "}", "\\}", "b"])
def test_where_the_text_was_cut_changes_nothing(parts: list[str]) -> None:
    assert read(*parts) == read("".join(parts))


def test_a_tag_without_an_end_is_not_waited_for() -> None:
    reader = MarkupReader()
    assert reader.feed("<a ") == []
    assert reader.feed("b" * 400) == [Text("<a " + "b" * 400)]
