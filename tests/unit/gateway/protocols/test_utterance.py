"""Utterances that take turns, and words as clients see them."""

from typing import Any, cast

from gateway.audio import AudioFormat
from gateway.protocols.framing import Plain, timed
from gateway.protocols.utterance import Playlist, StreamedText
from ttscommon.wire.messages import WordTime


def utterance() -> StreamedText[Plain]:
    nothing = cast(Any, None)
    return StreamedText(nothing, AudioFormat(), Plain(), nothing)


def test_the_first_has_its_turn_at_once_and_the_others_at_the_end_of_the_one_before() -> None:
    playlist, first, second = Playlist[Plain](), utterance(), utterance()
    assert playlist.add(first)
    assert not playlist.add(second)
    assert playlist.spoken is first
    assert list(playlist) == [first, second]
    assert playlist.over(first) is second
    assert playlist.over(first) is None
    assert playlist.over(second) is None
    assert len(playlist) == 0


def test_what_is_cleared_has_no_turn() -> None:
    playlist, first, second = Playlist[Plain](), utterance(), utterance()
    playlist.add(first)
    playlist.add(second)
    assert playlist.clear() == [first, second]
    assert playlist.over(first) is playlist.spoken is None


def test_a_word_says_what_it_is_read_as_and_where_it_stands_if_that_is_known() -> None:
    date = WordTime("3/3,", 0.5, 1.5, "march third", 10, 14)
    times = {"word": "3/3,", "start_s": 0.5, "end_s": 1.5}
    assert timed(date) == {**times, "spoken": "march third", "start_char": 10, "end_char": 14}
    assert timed(WordTime("3/3,", 0.5, 1.5)) == times
