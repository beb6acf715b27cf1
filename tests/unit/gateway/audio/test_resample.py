"""The stretch: as long as it should be, at the same pitch, however it is fed."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from gateway.audio.resample import TimeStretch, resampler


@pytest.mark.parametrize("target", [8_000, 24_000, 44_100, 48_000])
def test_chunks_resample_to_the_same_as_the_whole(target: int) -> None:
    tone = (8000 * np.sin(2 * np.pi * 440 * np.arange(16_000) / 16_000)).astype(np.int16)
    whole = resampler(16_000, target)
    chunked = resampler(16_000, target)
    expected = np.concatenate([whole.feed(tone), whole.flush()])
    parts = [chunked.feed(part) for part in np.array_split(tone, 13)]
    result = np.concatenate([*parts, chunked.flush()])
    assert len(result) == target
    assert np.abs(result.astype(int) - expected.astype(int)).max() <= 1


RATE = 24_000
SPEEDS = [0.25, 0.5, 0.8, 1.25, 2.0, 4.0]


def voice(seconds: float = 2.0) -> npt.NDArray[np.int16]:
    """A buzz of 150 Hz and its harmonics that swells and fades, as syllables do."""
    times = np.arange(int(seconds * RATE)) / RATE
    buzz = sum(np.sin(2 * np.pi * 150 * n * times) / n for n in range(1, 12))
    return np.asarray(4000 * buzz * (0.6 + 0.4 * np.sin(2 * np.pi * 4 * times)), np.int16)


def stretched(pcm: npt.NDArray[np.int16], speed: float, step: int = 960) -> npt.NDArray[Any]:
    stretch = TimeStretch(RATE, speed)
    parts = [stretch.feed(pcm[at : at + step]) for at in range(0, len(pcm), step)]
    return np.concatenate([*parts, stretch.flush()])


def pitch_hz(pcm: npt.NDArray[Any]) -> float:
    """By the strongest autocorrelation between 80 and 400 Hz."""
    part = pcm[len(pcm) // 4 :][: RATE // 8].astype(float)
    likeness = np.correlate(part, part, "full")[len(part) - 1 :]
    low, high = RATE // 400, RATE // 80
    return RATE / (low + int(np.argmax(likeness[low:high])))


@pytest.mark.parametrize("seconds", [0.01, 2.0])
@pytest.mark.parametrize("speed", SPEEDS)
def test_the_length_follows_the_speed_exactly(speed: float, seconds: float) -> None:
    assert len(stretched(voice(seconds), speed)) == round(len(voice(seconds)) / speed)


@pytest.mark.parametrize("speed", SPEEDS)
def test_the_pitch_stays(speed: float) -> None:
    assert pitch_hz(stretched(voice(4.0), speed)) == pytest.approx(150, rel=0.03)


@pytest.mark.parametrize("speed", [0.7, 1.3])
def test_how_it_is_fed_changes_no_sample(speed: float) -> None:
    pcm = voice(0.5)
    assert np.array_equal(stretched(pcm, speed, 123), stretched(pcm, speed, 100_000))


@pytest.mark.parametrize("speed", SPEEDS)
def test_it_holds_back_little(speed: float) -> None:
    stretch = TimeStretch(RATE, speed)
    made = len(stretch.feed(voice(1.0)))
    assert made >= (RATE - 0.06 * RATE * max(1.0, speed)) / speed


def test_silence_stays_silence() -> None:
    assert not stretched(np.zeros(RATE, np.int16), 1.5).any()


def test_loudness_stays() -> None:
    pcm = voice()
    assert np.std(stretched(pcm, 1.5)) == pytest.approx(np.std(pcm), rel=0.1)
