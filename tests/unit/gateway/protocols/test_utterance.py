"""Utterances that take turns."""

from typing import Any, cast

from gateway.audio import AudioFormat
from gateway.protocols.framing import Plain
from gateway.protocols.utterance import Playlist, StreamedText


def utterance() -> StreamedText[Plain]:
    nothing = cast(Any, None)
    return StreamedText(nothing, AudioFormat(), Plain(), nothing)


def test_the_first_has_its_turn_at_once_and_the_others_wait() -> None:
    playlist, first, second = Playlist[Plain](), utterance(), utterance()
    assert playlist.add(first)
    assert not playlist.add(second)
    assert playlist.spoken is first
    assert list(playlist) == [first, second]


def test_the_end_of_one_is_the_turn_of_the_next() -> None:
    playlist, first, second = Playlist[Plain](), utterance(), utterance()
    playlist.add(first)
    playlist.add(second)
    assert playlist.over(first) is second
    assert playlist.over(first) is None
    assert playlist.over(second) is None
    assert len(playlist) == 0


def test_what_is_cleared_has_no_turn() -> None:
    playlist, first, second = Playlist[Plain](), utterance(), utterance()
    playlist.add(first)
    playlist.add(second)
    assert playlist.clear() == [first, second]
    assert playlist.over(first) is None
    assert playlist.spoken is None
