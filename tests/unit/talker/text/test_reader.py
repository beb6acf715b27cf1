"""Pieces of text become utterances and pauses, in order, as soon as they are certain."""

import pytest

from talker.text.frontend import EnglishFrontend, Given, Utterance
from talker.text.reader import Reader
from ttscommon.errors import BadRequest, NothingToSay
from ttscommon.pieces import Boundary, Pause, Phones, Piece, Text


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
        Given.parse("tomato", "t xx")
    assert Given.parse("tomato", "T AH M EY2 T OW").phones == (
        *("t", "ah0", "m", "ey1", "t", "ow0"),
    )
