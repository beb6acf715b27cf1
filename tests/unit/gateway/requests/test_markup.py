"""Markup: understood or dropped, wherever the text was cut."""

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.requests.markup import MarkupReader, rate_of
from ttscommon.wire.pieces import Boundary, Pause, Phones, Piece, Text


def ipa(word: str, phones: str) -> Phones:
    return Phones(word, phones, "ipa", optional=True)


def said_as(word: str, kind: str, form: str = "") -> Phones:
    return Phones(word, "", optional=True, kind=kind, form=form)


def read(*parts: str) -> list[Piece]:
    reader = MarkupReader()
    pieces = [piece for part in parts for piece in reader.feed(part)]
    return joined([*pieces, *reader.feed("", final=True)])


def unplaced(piece: Piece) -> Piece:
    return replace(piece, source=-1) if isinstance(piece, Text | Phones) else piece


def joined(pieces: list[Piece]) -> list[Piece]:
    found: list[Piece] = []
    for piece in map(unplaced, pieces):
        last = found[-1] if found else None
        if isinstance(piece, Text) and isinstance(last, Text) and piece.rate == last.rate:
            found[-1] = Text(last.text + piece.text, rate=last.rate)
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
        (
            '<phoneme alphabet="x-sampa" ph="taId">tide</phoneme> in',
            [ipa("tide", "taɪd"), Text(" in")],
        ),
        ('<phoneme alphabet="x-sampa" ph="ta£d">tide</phoneme> in', [Text("tide in")]),
        ('<phoneme alphabet="kana" ph="taId">tide</phoneme> in', [Text("tide in")]),
        ('<phoneme alphabet="ipa">tide</phoneme> in', [Text("tide in")]),
        ('<phoneme ph="taɪd">tide <break/>in', [Text("tide "), Pause(0.4), Text("in")]),
        ('<phoneme ph="taɪd"/>in', [Text("in")]),
        ('<emotion value="sad" /><speed ratio="1.2"/>Hello', [Text("Hello")]),
        ("<speak><spell>AB</spell></speak>", [said_as("AB", "characters")]),
        (
            'on <say-as interpret-as="date" format="dmy">3/4</say-as>',
            [Text("on "), said_as("3/4", "date", "dmy")],
        ),
        ("<say-as interpret-as='runes'>AB</say-as> C", [Text("AB C")]),
        (
            '<sub alias="A &amp; B">A&amp;B</sub>!',
            [Phones("A&B", "", optional=True, alias="A & B"), Text("!")],
        ),
        (
            '<prosody rate="slow"><emphasis>a</emphasis></emphasis>b<emphasis>c</prosody>d',
            [
                Text("a", rate=0.75 * 0.87),
                Text("b", rate=0.75),
                Text("c", rate=0.75 * 0.87),
                Text("d"),
            ],
        ),
        ('<prosody rate="slow"/>word', [Text("word")]),
        ("<p>One</p><s>two</s>", [Text("One"), Boundary(), Text("two"), Boundary()]),
        (
            '<prosody rate="slow">a <emphasis level="strong">b</emphasis></prosody> c',
            [Text("a ", rate=0.75), Text("b", rate=0.5625), Text(" c")],
        ),
        (
            '<prosody rate="+20%"><sub alias="x">y</sub>',
            [Phones("y", "", optional=True, alias="x", rate=1.2)],
        ),
        (
            '<prosody rate="many">a</prosody></prosody><emphasis>b',
            [Text("a"), Text("b", rate=0.87)],
        ),
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
        ("mc<sup>2</sup>", [Text("mc²")]),
        ("10<sup>-3</sup>", [Text("10⁻³")]),
        ("the 19<sup>th</sup> floor", [Text("the 19th floor")]),
        ("H<sub>2</sub>O", [Text("H2O")]),
        ("one<br>two<br/>three", [Text("one\ntwo\nthree")]),
        ("<ul><li>one</li><li>two</li></ul>", [Text("one"), Boundary(), Text("two"), Boundary()]),
        ("<h2>News</h2>Won", [Text("News"), Boundary(), Text("Won")]),
        ("<tr><td>a</td><td>b</td></tr>", [Text("a\tb\t"), Boundary()]),
    ],
)
def test_markup_is_understood_or_dropped(text: str, pieces: list[Piece]) -> None:
    assert read(text) == pieces
    assert read(*text) == pieces


SCRAPS = st.sampled_from(
    [
        "<phoneme ", 'ph="a"', ">", "word", "</phoneme>", "<", "/", "<break/>", "\\{", "\\}", "<<",
        " ", '<say-as interpret-as="date">', "</say-as>", '<sub alias="a">', "</sub>", "1/2",
        "</p>", '<prosody rate="80%">', "</prosody>", "<emphasis>", "</emphasis>", "<spell>",
    ]
)  # fmt: skip


@given(st.lists(st.text(alphabet='<>/\\{}"ab =break1s|', max_size=30) | SCRAPS, max_size=12))
@example(["<a", "\\{", ">", "\\}"])
@example(["\\{", "<a", "}", "\\}", "b"])
def test_where_the_text_was_cut_changes_nothing(parts: list[str]) -> None:
    whole = "".join(parts)
    assert read(*parts) == read(whole) == read(*whole)


@given(st.text(alphabet="<>ab é/\\{}", max_size=40), st.integers(0, 40))
def test_every_character_keeps_its_place(text: str, cut: int) -> None:
    reader = MarkupReader()
    pieces = [*reader.feed(text[:cut]), *reader.feed(text[cut:], final=True)]
    for piece in pieces:
        if isinstance(piece, Text):
            assert text[piece.source : piece.source + len(piece.text)] == piece.text
    assert reader.position == len(text)


def test_an_element_is_waited_for_no_longer_than_a_tag() -> None:
    long = '<sub alias="x">' + "a" * 400 + "</sub>b"
    assert read(long) == read(*long) == [Text("a" * 400 + "b")]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('<voice name="x">a</voice><break/><p>b</p>', ["markup:voice"]),
        ('<prosody pitch="high" rate="slow">a</prosody>', ["markup:prosody pitch"]),
        ('<prosody rate="many">a</prosody>', ["markup:prosody rate"]),
        ('<emphasis level="huge">a</emphasis>', ["markup:emphasis"]),
        ('<say-as interpret-as="runes">a</say-as>', ["markup:say-as runes"]),
        ('<phoneme alphabet="kana" ph="a">a</phoneme>', ["markup:phoneme"]),
        ("<say-as interpret-as='a\r\nx-y: z'>a</say-as>", ["markup:say-as"]),
        ("<say-as interpret-as='日付'>a</say-as>", ["markup:say-as"]),
        ("<日付/><a\r\nb='c'/>", ["markup:a"]),
        ("1 < 2", []),
    ],
)
def test_what_is_not_followed_is_told(text: str, told: list[str]) -> None:
    reader = MarkupReader()
    reader.feed(text, final=True)
    assert reader.dropped(phones=True, pace=True) == told


def test_a_model_without_phones_or_pace_is_told_of_too() -> None:
    reader = MarkupReader()
    text = '<prosody rate="slow"><say-as interpret-as="time">1:30</say-as></prosody>'
    reader.feed(text + "<sub alias='b'>a</sub>", final=True)
    assert reader.dropped(phones=True, pace=True) == []
    assert reader.dropped(phones=False, pace=False) == ["markup:prosody rate", "markup:say-as time"]


def test_few_names_are_kept_of_what_is_dropped() -> None:
    reader = MarkupReader()
    reader.feed("".join(f"<x{number}/>" for number in range(100)), final=True)
    assert len(reader.dropped(phones=True, pace=True)) == 20


def test_a_tag_without_an_end_is_not_waited_for() -> None:
    reader = MarkupReader()
    assert reader.feed("<a ") == []
    assert reader.feed("b" * 400) == [Text("<a " + "b" * 400, 0)]


@pytest.mark.parametrize("bracket", ["[", '{"word": '])
def test_words_nested_three_thousand_deep_are_dropped(bracket: str) -> None:
    assert read('Before. \\{"word": ' + bracket * 3000 + "\\} After.") == read(
        'Before. \\{"word": ', bracket * 3000 + "\\} After."
    )
    short = '\\{"word": ' + "[" * 250 + "\\}"
    assert read(short + "After.") == [Text("After.")]


def test_elements_that_nest_without_end_are_not_counted() -> None:
    (piece,) = read('<prosody rate="99%">' * 1000 + "word")
    assert isinstance(piece, Text)
    assert piece.rate == pytest.approx(0.99**16)


@pytest.mark.parametrize("name", ["prosody rate='fast'", "emphasis", "speak", "phoneme", "x"])
def test_tags_nested_three_thousand_deep_are_read_as_what_they_hold(name: str) -> None:
    tag = name.partition(" ")[0]
    pieces = read(f"<{name}>" * 3000 + "word" + f"</{tag}>" * 3000)
    assert [piece.text for piece in pieces if isinstance(piece, Text)] == ["word"]


def test_braces_that_open_without_end_are_read_in_time_of_their_length() -> None:
    """Each was held against all that follows: ten thousand characters took seconds."""

    def processor_s(count: int) -> float:
        begun_s = time.thread_time()
        read("\\{" * count)
        return time.thread_time() - begun_s

    processor_s(100)
    assert processor_s(20_000) < 40 * max(processor_s(2_000), 1e-3)


@pytest.mark.parametrize(
    ("written", "rate"),
    [
        ("slow", 0.75), (" X-FAST ", 1.6), ("medium", 1.0), ("80%", 0.8), ("1.5", 1.5),
        ("+20%", 1.2), ("-20%", 0.8), ("900%", 4.0), ("0%", 0.25), ("-200%", 0.25),
        ("quick", None), ("", None), ("1e5", None),
    ],
)  # fmt: skip
def test_rates_are_read(written: str, rate: float | None) -> None:
    assert rate_of(written) == rate
