from __future__ import annotations

from ttscommon.wire.messages import TextPiece, decode, encode
from ttscommon.wire.pieces import Boundary, Mark, Pause, Phones, Piece, Text, marked, unmarked

PIECES: list[Piece] = [
    Text("The "),
    Phones("tide", "t aI d"),
    Boundary(),
    Text("is "),
    Pause(0.5),
    Text("in."),
]


def test_pieces_travel_as_text_with_marks_and_back() -> None:
    text, marks, _ = marked(PIECES)
    assert text == "The tide is  in."
    assert unmarked(text, marks) == PIECES


def test_every_piece_takes_room_in_the_text() -> None:
    assert marked([Boundary()]).text == " "
    assert unmarked(*marked([Boundary()])) == [Boundary()]


def test_marks_that_do_not_fit_their_text_are_left_out() -> None:
    assert unmarked("ab", (Mark(1, Phones("long", "l")), Mark(9, Boundary()))) == [Text("ab")]
    assert unmarked("", ()) == [Text("")]


def test_the_tail_of_a_text_piece_keeps_its_marks() -> None:
    text, marks, _ = marked(PIECES)
    piece = TextPiece("request1", 10, text, marks)
    tail = piece.tail(18)
    assert unmarked(tail.text, tail.marks) == PIECES[2:]
    assert decode(encode(piece)) == piece
