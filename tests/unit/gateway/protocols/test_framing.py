"""Timed words as clients see them."""

from gateway.protocols.framing import timed
from ttscommon.wire.messages import WordTime

DATE = WordTime("3/3,", 0.5, 1.5, "march third", 10, 14)


def test_a_word_says_what_it_is_read_as_and_where_it_stands() -> None:
    assert timed(DATE) == {
        "word": "3/3,",
        "start_s": 0.5,
        "end_s": 1.5,
        "spoken": "march third",
        "start_char": 10,
        "end_char": 14,
    }


def test_what_is_not_known_is_left_out() -> None:
    assert timed(WordTime("hi", 0.0, 0.5)) == {"word": "hi", "start_s": 0.0, "end_s": 0.5}
