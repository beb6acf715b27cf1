"""Pieces of text become utterances and pauses, in order, as soon as they are certain."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.random_cases import examples
from ttscommon.wire.errors import BadRequest, NothingToSay
from ttscommon.wire.pieces import Boundary, Pause, Phones, Piece, Text
from ttsfamilies.base.text.frontend import EnglishFrontend, Substitution, Utterance
from ttsfamilies.base.text.reader import Reader


@pytest.mark.parametrize(
    ("pieces", "read"),
    [
        ([Text("One two"), Pause(0.4), Text("three.")], ["One two", 0.4, "three."]),
        # A boundary between paragraphs is no paragraph of its own.
        ([Text("\n\nOne two"), Boundary(), Text("three")], ["One two", "three"]),
        # What cannot be spoken is passed over unless it is all.
        ([Text("One."), Boundary(), Text("***"), Boundary(), Text("Two.")], ["One.", "Two."]),
    ],
)
def test_a_pause_stands_where_it_was_asked_for_and_a_boundary_ends_an_utterance(
    frontend: EnglishFrontend, pieces: list[Piece], read: list[str | float]
) -> None:
    reader = Reader(frontend.phones, paragraph_s=0.25)
    assert _read(reader.read(pieces, final=True)) == read


def _read(found: Iterable[Utterance | Pause]) -> list[str | float]:
    """What words utterances have, and how long pauses are."""
    return [
        " ".join(word.text for word in one.words) if isinstance(one, Utterance) else one.seconds
        for one in found
    ]


def test_a_text_that_cannot_be_spoken_is_refused(frontend: EnglishFrontend) -> None:
    with pytest.raises(NothingToSay):
        list(Reader(frontend.phones).read([Text("***")], final=True))


IPA = Phones("tide", "tɑd", "ipa", optional=True)


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        ([Phones("tomato", "t ah0 m")], "t ah0 m"),
        # They are not changed by their neighbours.
        ([Phones("the", "dh ax0"), Text("apple")], "dh ax0 ae1 p ex0 l"),
        # Those of markup are said, or the word is read.
        ([IPA], "t aa1 d"),
        ([replace(IPA, phones="t!d")], "t ay1 d"),
    ],
)
def test_given_phones_are_said_for_their_word(
    frontend: EnglishFrontend, pieces: list[Piece], said: str
) -> None:
    (found,) = Reader(frontend.phones).read(pieces, final=True)
    assert isinstance(found, Utterance)
    assert " ".join(phone.symbol for phone in found.phones[1:-1]) == said


def test_phones_that_do_not_exist_are_refused() -> None:
    with pytest.raises(BadRequest, match="xx"):
        Substitution.parse(Phones("tomato", "t xx"))
    with pytest.raises(BadRequest, match="no phone"):
        Substitution.parse(Phones("tomato", " "))
    assert Substitution.parse(Phones("tomato", "T AH M EY2 T OW")).phones == (
        *("t", "ah0", "m", "ey1", "t", "ow0"),
    )


def test_punctuation_behind_a_word_with_phones_is_the_words(frontend: EnglishFrontend) -> None:
    tide = Phones("tide", "t ay1 d")
    pieces: list[Piece] = [Text("The "), tide, Text(", or not"), tide, Text("? ")]
    (found,) = Reader(frontend.phones).read(pieces, final=True)
    assert isinstance(found, Utterance)
    assert [word.text for word in found.words] == ["The", "tide,", "or", "not", "tide?"]
    assert found.marks == (",", "?")


def test_phones_without_a_word_are_said_too(frontend: EnglishFrontend) -> None:
    pieces: list[Piece] = [Text("say"), Phones("", "mɛt", "ipa", optional=True), Text("now")]
    (found,) = Reader(frontend.phones).read(pieces, final=True)
    assert isinstance(found, Utterance)
    assert [word.text for word in found.words] == ["say", "", "now"]
    start, end = found.words[1].start, found.words[1].end
    assert [phone.symbol for phone in found.phones[start:end]] == ["m", "eh1", "t"]


def _timed(frontend: EnglishFrontend, *pieces: Piece) -> list[tuple[str, str, int, int]]:
    found = Reader(frontend.phones).read(pieces, final=True)
    words = (word for one in found if isinstance(one, Utterance) for word in one.words)
    return [(word.text, word.spoken, word.first, word.last) for word in words]


@pytest.mark.parametrize(
    ("pieces", "timed"),
    [
        # A given word stands where it was written, even if its phones cannot be said.
        (
            [
                *(
                    Text("The ", 0),
                    Phones("WHO", "", optional=True, alias="world health", source=20),
                ),
                *(Text(", too.", 29), Pause(0.1), Text("Yes", 50)),
            ],
            [
                *(("The", "the", 0, 3), ("WHO,", "world health", 20, 23)),
                *(("too.", "too", 31, 35), ("Yes", "yes", 50, 53)),
            ],
        ),
        (
            [Phones("tide", "t xx", optional=True, source=5), Text(" in", 20)],
            [("tide", "tide", 5, 9), ("in", "in", 21, 23)],
        ),
        # A word whose place is unknown has none.
        ([Text("Hi there")], [("Hi", "hi", -1, -1), ("there", "there", -1, -1)]),
    ],
)
def test_words_say_what_they_are_read_as_and_where_they_stand(
    frontend: EnglishFrontend, pieces: list[Piece], timed: list[tuple[str, str, int, int]]
) -> None:
    assert _timed(frontend, *pieces) == timed


def test_a_rate_is_that_of_its_words(frontend: EnglishFrontend) -> None:
    pieces = [Text("one ", 0), Text("two three", 4, 0.8), Text(" four.", 13)]
    (found,) = Reader(frontend.phones).read(pieces, final=True)
    assert isinstance(found, Utterance)
    assert [word.rate for word in found.words] == [1.0, 0.8, 0.8, 1.0]


WRITTEN = st.sampled_from(
    [
        "On March 3rd", "we paid $5.20", "in Boston, MA", "at 10:30 am", "Dr. Smith", "didn't",
        "c. 1850.", "2/3 cup!", "ISBN 978-0", "5-10 km,", "\n\n", "x^2", "Type II;", "- ",
    ]
)  # fmt: skip


@examples(60)
@given(st.lists(WRITTEN, min_size=1, max_size=6).map(" ".join), st.data())
def test_every_cut_gives_the_same_words_in_the_same_places(
    frontend: EnglishFrontend, text: str, data: st.DataObject
) -> None:
    text = f"So {text} then."
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8).map(sorted))
    ends = [*cuts, len(text)]
    parts = [Text(text[a:b], a) for a, b in zip([0, *cuts], ends, strict=True)]
    whole = _timed(frontend, Text(text, 0))
    assert _timed(frontend, *parts) == whole
    assert [" ".join(text[first:last].split()) for _, _, first, last in whole] == [
        word for word, *_ in whole
    ]
    assert [first for _, _, first, _ in whole] == sorted(first for _, _, first, _ in whole)


@examples(40)
@given(st.lists(WRITTEN, min_size=2, max_size=6).map(" ".join), st.data())
def test_what_was_spoken_is_never_taken_back(
    frontend: EnglishFrontend, text: str, data: st.DataObject
) -> None:
    """Whatever follows: the words that are out are the first words of the whole text's."""
    reader, cut = Reader(frontend.phones), data.draw(st.integers(1, len(text)))
    said = list(reader.read([Text(text[:cut], 0)], final=False))
    out = [word for one in said if isinstance(one, Utterance) for word in one.words]
    whole = _timed(frontend, Text(text + " and 5.", 0))
    assert [(w.text, w.spoken, w.first, w.last) for w in out] == whole[: len(out)]


LETTER = "# News\nWe won.\n\n***\n\nIt was close.\nVery close\n\nYours"


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_longer_silence_stands_between_paragraphs_alone(
    frontend: EnglishFrontend, size: int
) -> None:
    reader = Reader(frontend.phones, paragraph_s=0.25)
    found: list[Utterance | Pause] = []
    for at in range(0, len(LETTER), size):
        found += reader.read([Text(LETTER[at : at + size])], final=False)
    found += reader.read([], final=True)
    parts = "News", 0.25, "We won.", 0.25, "It was close.", "Very close", 0.25, "Yours"
    assert _read(found) == list(parts)
