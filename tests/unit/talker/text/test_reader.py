"""Pieces of text become utterances and pauses, in order, as soon as they are certain."""

import pytest
from msgspec.structs import replace

from talker.text.frontend import EnglishFrontend, Given, Utterance
from talker.text.reader import Reader
from ttscommon.wire.errors import BadRequest, NothingToSay
from ttscommon.wire.pieces import Boundary, Pause, Phones, Piece, Text


def _read(frontend: EnglishFrontend, *pieces: Piece) -> list[str]:
    found = Reader(frontend.phones).read(pieces, final=True)
    return [
        " ".join(word.text for word in one.words) if isinstance(one, Utterance) else "pause"
        for one in found
    ]


def test_a_pause_stands_where_it_was_asked_for(frontend: EnglishFrontend) -> None:
    assert _read(frontend, Text("One two"), Pause(0.4), Text("three.")) == [
        "One two",
        "pause",
        "three.",
    ]


def test_a_boundary_ends_an_utterance(frontend: EnglishFrontend) -> None:
    assert _read(frontend, Text("One two"), Boundary(), Text("three")) == ["One two", "three"]


def test_given_phones_are_said_for_their_word(frontend: EnglishFrontend) -> None:
    (found,) = Reader(frontend.phones).read([Phones("tomato", "t ah0 m")], final=True)
    assert isinstance(found, Utterance)
    assert [phone.symbol for phone in found.phones[1:-1]] == ["t", "ah0", "m"]


def test_what_cannot_be_spoken_is_passed_over_unless_it_is_all(frontend: EnglishFrontend) -> None:
    assert _read(frontend, Text("One."), Boundary(), Text("***"), Boundary(), Text("Two.")) == [
        "One.",
        "Two.",
    ]
    with pytest.raises(NothingToSay):
        _read(frontend, Text("***"))


def test_phones_that_do_not_exist_are_refused() -> None:
    with pytest.raises(BadRequest, match="xx"):
        Given.parse(Phones("tomato", "t xx"))
    with pytest.raises(BadRequest, match="no phone"):
        Given.parse(Phones("tomato", " "))
    assert Given.parse(Phones("tomato", "T AH M EY2 T OW")).phones == (
        *("t", "ah0", "m", "ey1", "t", "ow0"),
    )


def test_given_phones_are_not_changed_by_their_neighbours(frontend: EnglishFrontend) -> None:
    (found,) = Reader(frontend.phones).read([Phones("the", "dh ax0"), Text("apple")], final=True)
    assert isinstance(found, Utterance)
    assert [phone.symbol for phone in found.phones[1:3]] == ["dh", "ax0"]


def test_phones_that_markup_gave_are_said_or_the_word_is_read(frontend: EnglishFrontend) -> None:
    ipa = Phones("tide", "tɑd", "ipa", optional=True)
    (said,) = Reader(frontend.phones).read([ipa], final=True)
    (read,) = Reader(frontend.phones).read([replace(ipa, phones="t!d")], final=True)
    assert isinstance(said, Utterance)
    assert isinstance(read, Utterance)
    assert [phone.symbol for phone in said.phones[1:-1]] == ["t", "aa1", "d"]
    assert [phone.symbol for phone in read.phones[1:-1]] == ["t", "ay1", "d"]
    assert [word.text for word in (*said.words, *read.words)] == ["tide", "tide"]


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
