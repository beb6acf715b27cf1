"""Recordings that clients send: good ones are read, all others are refused by name."""

import io
import struct
import wave

import numpy as np
import pytest

from ttscommon.sound.recordings import MOST_BYTES, BadRecording, read_recording


def wav(
    seconds: float = 2.0, rate: int = 24_000, channels: int = 1, loudness: float = 0.5
) -> bytes:
    """A tone, louder in the first channel than in the others."""
    time = np.arange(int(seconds * rate)) / rate
    tone = loudness * np.sin(2 * np.pi * 220 * time)
    sound = np.stack([tone / (1 + channel) for channel in range(channels)], 1)
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes((sound * 32767).astype("<i2").tobytes())
    return file.getvalue()


@pytest.mark.parametrize(("rate", "channels", "loudest"), [(24_000, 1, 0.5), (8000, 2, 0.375)])
def test_a_recording_is_read_at_its_own_rate_and_mixed_down(
    rate: int, channels: int, loudest: float
) -> None:
    samples, found = read_recording(wav(rate=rate, channels=channels))
    assert samples.dtype == np.float32
    assert (len(samples), found) == (2 * rate, rate)
    assert np.abs(samples).max() == pytest.approx(loudest, abs=1e-3)


def lying(data: bytes, at: int, form: str, value: int) -> bytes:
    """With another value in its header."""
    size = struct.calcsize(form)
    return data[:at] + struct.pack(form, value) + data[at + size :]


DATA_BYTES, RATE, CHANNELS = (40, "<I"), (24, "<I"), (22, "<H")
BAD = {
    "empty": (b"", "empty"),
    "not audio": (b"%PDF-1.7 " + bytes(range(256)) * 40, "no WAV|cannot be decoded|0.0"),
    "a picture of sound": (b"RIFF" + b"\0" * 4000, "no WAV|cannot be decoded|0.0"),
    "short": (wav(0.4), "0.40 s"),
    "ten minutes": (wav(600.0, 8000), "longer than 30 s"),
    "silent": (wav(loudness=0.0), "silent"),
    "large": (wav()[:44] + b"\0" * MOST_BYTES, "over 10 MB"),
    "announces a rate of nonsense": (lying(wav(), *RATE, 1_000_000_000), "sample rate|no WAV"),
    "announces a rate of one": (lying(wav(), *RATE, 1), "sample rate"),
    "announces a hundred channels": (lying(wav(), *CHANNELS, 100), "channels|no WAV"),
    "announces no channels": (lying(wav(), *CHANNELS, 0), "channels|no WAV"),
    "cut off": (wav()[:30], "no WAV|cannot be decoded"),
}


@pytest.mark.parametrize("announced", [0xFFFFFFFF, 1 << 28, 96_000 * 3])
def test_a_header_that_announces_more_than_there_is_costs_nothing(announced: int) -> None:
    """Whoever writes a WAV into a pipe cannot know its length; what is there is read."""
    samples, _ = read_recording(lying(wav(), *DATA_BYTES, announced))
    assert len(samples) == 48_000


@pytest.mark.parametrize("name", BAD)
def test_bad_recordings_are_refused_with_their_reason(name: str) -> None:
    data, reason = BAD[name]
    with pytest.raises(BadRecording, match=reason) as refused:
        read_recording(data)
    assert refused.value.param == "ref_audio"
    assert refused.value.code == "bad_request"
