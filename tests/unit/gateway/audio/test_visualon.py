"""AAC by the encoder of VisualOn, where the system has its library."""

import sys

import numpy as np
import pytest

from gateway.audio import AudioFormat
from gateway.audio.encoders import aac, encoder_for, ready
from gateway.errors import Unsupported
from tests.unit.gateway.audio.test_encoders import RATE, decoded, encoded, loudest_hz, tone

DELAY = 1600


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the library; what decodes has been imported already."""
    pytest.importorskip("av")
    if aac.library() is None:
        pytest.skip("the system has no libvo-aacenc (Debian: libvo-aacenc0)")
    monkeypatch.setattr("gateway.audio.encoders.aac.find_spec", lambda name: None)


@pytest.mark.parametrize("rate", [16_000, 24_000, 48_000])
def test_sound_is_whole_behind_its_delay(rate: int) -> None:
    pcm = tone(1.0, rate)
    found = decoded(encoded(AudioFormat("aac"), pcm, 900, rate), rate)
    assert len(pcm) + DELAY <= len(found) < len(pcm) + DELAY + 1024
    said = found[DELAY : DELAY + len(pcm)]
    assert abs(loudest_hz(said, rate) - 440) < 2
    assert np.abs(found[: DELAY - 200]).max() < 400 < np.abs(said[-200:]).max()


def test_how_the_audio_is_cut_changes_no_byte() -> None:
    pcm = tone(0.5)
    assert encoded(AudioFormat("aac"), pcm, 317) == encoded(AudioFormat("aac"), pcm, 5000)


def test_it_begins_soon_and_makes_nothing_of_nothing() -> None:
    assert encoder_for(AudioFormat("aac"), RATE).feed(tone(0.05))
    assert encoder_for(AudioFormat("aac"), RATE).finish() == b""


def test_a_book_in_mp4_needs_ffmpeg_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    ready(AudioFormat("aac"))
    monkeypatch.setitem(sys.modules, "av", None)
    ready(AudioFormat("aac"))
    with pytest.raises(Unsupported, match="m4b"):
        ready(AudioFormat("aac", "mp4"))


def test_many_encoders_come_and_go() -> None:
    whole = encoded(AudioFormat("aac"), tone(0.2), 480)
    assert all(encoded(AudioFormat("aac"), tone(0.2), 480) == whole for _ in range(50))
    assert whole.startswith(b"\xff\xf9")  # of MPEG-2, as decoders take it too
