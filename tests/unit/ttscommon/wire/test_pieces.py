import msgspec

from ttscommon.wire.messages import TextPiece, decode, encode
from ttscommon.wire.pieces import Boundary, Mark, Pause, Phones, Piece, Span, Text, marked, unmarked

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
    assert text == "The tide is  in."  # each takes room in it
    assert unmarked(text, marks) == PIECES


def test_marks_that_do_not_fit_their_text_are_left_out() -> None:
    assert unmarked("ab", (Mark(1, Phones("long", "l")), Mark(9, Boundary()))) == [Text("ab")]
    assert unmarked("", ()) == [Text("")]


PLACED: list[Piece] = [
    Text("The ", 0),
    Phones("tide", "", optional=True, alias="sea", source=30, rate=0.5),
    Pause(0.5),
    Text("is ", 50, 0.5),
    Text("in.", 53),
]


def test_places_and_rates_travel_beside_the_text() -> None:
    text, marks, spans = marked(PLACED)
    assert spans == (Span(0, 0), Span(4, 30, 0.5), Span(9, 50, 0.5), Span(12, 53))
    assert unmarked(text, marks, spans) == PLACED


def test_texts_that_follow_each_other_need_one_span() -> None:
    assert marked([Text("one ", 7), Text("two", 11)]).spans == (Span(0, 7),)
    assert marked([Text("one "), Text("two")]).spans == ()


def test_the_tail_of_a_text_piece_keeps_its_marks_and_places() -> None:
    for pieces, start, left in (
        (PIECES, 18, PIECES[2:]),
        (PLACED, 20, [Text("s ", 51, 0.5), Text("in.", 53)]),
    ):
        text, marks, spans = marked(pieces)
        piece = TextPiece("request1", 10, text, marks, spans=spans)
        assert decode(encode(piece)) == piece
        tail = piece.tail(start)
        assert unmarked(tail.text, tail.marks, tail.spans) == left


def test_an_older_talker_reads_the_word_of_what_it_does_not_know() -> None:
    """It knows four fields of a word with phones; without phones it reads the word."""
    mark = marked([Phones("WHO", "", optional=True, alias="x", source=3)]).marks[0]
    assert msgspec.to_builtins(mark)[1].keys() == {"type", "text", "phones", "optional", "alias"}
