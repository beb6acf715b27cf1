"""Timed words as clients see them."""

from gateway.protocols.elevenlabs.fields import Alignment
from gateway.protocols.shared.words import timed
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


def test_elevenlabs_clients_get_the_written_and_the_spoken_characters() -> None:
    found = Alignment(relative=True).fields((DATE,), ("alignment", "normalizedAlignment"))
    written, spoken = found["alignment"], found["normalizedAlignment"]
    assert "".join(written["chars"]) == "3/3, "
    assert "".join(spoken["chars"]) == "march third "
    for one in (written, spoken):
        assert one["charStartTimesMs"][0] == 500
        assert one["charStartTimesMs"][-2] + one["charDurationsMs"][-2] == 1500


def test_times_are_relative_to_the_alignment_before() -> None:
    alignment = Alignment(relative=True)
    alignment.fields((DATE,), ("a", "b"))
    later = alignment.fields((WordTime("x", 2.0, 2.5),), ("a", "b"))
    assert [one["charStartTimesMs"][0] for one in later.values()] == [500, 500]
    assert alignment.fields((), ("a", "b")) == {"a": None, "b": None}
