"""Recordings that clients send: decoded by a library, checked, mixed down to one channel.

Decoding is done piece by piece and stops at the longest recording that is taken, so that a small
file cannot become gigabytes. The decoder (WAV, FLAC, MP3, Vorbis) is an extra: `checkpoints`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ttscommon.wire.errors import BadRequest

MOST_BYTES: Final = 10 << 20
LEAST_S: Final = 1.0
# Of what is said to a model, and no voice.
LEAST_SAID_S: Final = 0.1
MOST_S: Final = 30.0
_LEAST_HZ, _MOST_HZ = 8000, 192_000
_MOST_CHANNELS: Final = 8
_SILENCE: Final = 1e-4

Floats = npt.NDArray[np.float32]


class BadRecording(BadRequest):
    """A recording that cannot be used as a voice."""

    def __init__(self, message: str) -> None:
        super().__init__(message, param="ref_audio")


class NoDecoder(BadRecording):
    """The library that decodes recordings is not installed."""


def read_recording(data: bytes, least_s: float = LEAST_S) -> tuple[Floats, int]:
    """Decode and check: [samples] float32 in -1..1, and their rate in Hz; raises BadRecording."""
    if not data:
        raise BadRecording("the recording is empty")
    if len(data) > MOST_BYTES:
        raise BadRecording(f"the recording is over {MOST_BYTES >> 20} MB")
    rate, channels, claimed = _header(data)
    if not _LEAST_HZ <= rate <= _MOST_HZ:
        raise BadRecording(f"the recording's sample rate is {rate} Hz, not 8 to 192 kHz")
    if not 1 <= channels <= _MOST_CHANNELS:
        raise BadRecording(f"the recording has {channels} channels")
    samples = _decoded(data, rate, channels)
    if len(samples) < claimed and len(samples) <= MOST_S * rate:
        raise BadRecording(
            f"the recording is damaged: {claimed} samples are announced, {len(samples)} are there"
        )
    return _checked(samples, rate, least_s), rate


def _checked(samples: Floats, rate: int, least_s: float) -> Floats:
    seconds = len(samples) / rate
    if seconds > MOST_S:
        raise BadRecording(f"the recording is longer than {MOST_S:.0f} s")
    if seconds < least_s:
        raise BadRecording(f"the recording has {seconds:.2f} s; {least_s:g} s is the least")
    if not np.isfinite(samples).all():
        raise BadRecording("the recording holds values that are no numbers")
    if np.abs(samples).max() < _SILENCE:
        raise BadRecording("the recording is silent")
    return np.clip(samples, -1.0, 1.0)


def _header(data: bytes) -> tuple[int, int, int]:
    """Rate in Hz, channels, and how many samples a channel are announced."""
    try:
        import miniaudio
    except ImportError as error:
        raise NoDecoder("recordings cannot be read here: an extra is not installed") from error
    readers: list[Callable[[bytes], Any]] = [
        miniaudio.wav_get_info,
        miniaudio.flac_get_info,
        miniaudio.vorbis_get_info,
        miniaudio.mp3_get_info,
    ]
    for read in readers:
        try:
            info = read(data)
        except (miniaudio.MiniaudioError, ZeroDivisionError):
            continue
        return info.sample_rate, info.nchannels, info.num_frames
    raise BadRecording("the recording is no WAV, FLAC, MP3 or Ogg Vorbis file")


def _decoded(data: bytes, rate: int, channels: int) -> Floats:
    """[samples], mixed down; a little more than MOST_S at the most."""
    import miniaudio

    form = miniaudio.SampleFormat.FLOAT32
    parts: list[Floats] = []
    length = 0
    try:
        for part in miniaudio.stream_memory(data, form, channels, rate, 8192):
            parts.append(np.frombuffer(part, np.float32).reshape(-1, channels).mean(1))
            length += len(parts[-1])
            if length > MOST_S * rate:
                break
    except miniaudio.MiniaudioError as error:
        raise BadRecording(f"the recording cannot be decoded: {error}") from error
    return np.concatenate(parts).astype(np.float32) if parts else np.zeros(0, np.float32)
