"""The choice of an encoder by format, its cost, and the encoders of bare samples."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from gateway.audio import formats
from gateway.audio.encoders.aac import adts_aac, require_aac
from gateway.audio.encoders.compressed import Flac, Mp3
from gateway.audio.encoders.opus import OggOpus, library
from gateway.audio.formats import AudioFormat
from gateway.audio.provenance import Provenance, id3, riff_info, vorbis_comments
from gateway.audio.resample import Pcm

_MULAW_BIAS: Final = 33
_MULAW_CLIP: Final = 8158


class RawPcm:
    """Signed 16-bit little-endian samples."""

    def feed(self, pcm: Pcm) -> bytes:
        return pcm.astype("<i2", copy=False).tobytes()

    def finish(self) -> bytes:
        return b""


class FloatPcm:
    """32-bit little-endian floats in [-1, 1)."""

    def feed(self, pcm: Pcm) -> bytes:
        return (pcm.astype("<f4") / np.float32(32768)).tobytes()

    def finish(self) -> bytes:
        return b""


class Companded:
    """One byte a sample by a table; ITU-T G.711."""

    def __init__(self, table: npt.NDArray[np.uint8]) -> None:
        self._table = table

    def feed(self, pcm: Pcm) -> bytes:
        return self._table[pcm.astype(np.int32) + 32768].tobytes()

    def finish(self) -> bytes:
        return b""


def _every_sample() -> npt.NDArray[Any]:
    return np.arange(-32768, 32768, dtype=np.int32)


def _segment(magnitude: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """floor(log2) of positive integers below 2^14."""
    return np.asarray(np.frexp(magnitude.astype(np.float64))[1] - 1)


def _mulaw() -> npt.NDArray[np.uint8]:
    """The code of each 16-bit sample: 14-bit magnitudes, biased, sign and bits inverted."""
    samples = _every_sample()
    negative = samples < 0
    magnitude = np.minimum(np.abs(samples) >> 2, _MULAW_CLIP) + _MULAW_BIAS
    segment = _segment(magnitude) - 5
    code = (segment << 4) | ((magnitude >> (segment + 1)) & 0x0F)
    return np.asarray(code ^ np.where(negative, 0x7F, 0xFF), np.uint8)


def _alaw() -> npt.NDArray[np.uint8]:
    """The code of each 16-bit sample: 13-bit magnitudes, even bits inverted."""
    samples = _every_sample() >> 3
    negative = samples < 0
    magnitude = np.where(negative, -samples - 1, samples)
    segment = np.maximum(_segment(np.maximum(magnitude, 1)) - 4, 0)
    code = (segment << 4) | ((magnitude >> np.maximum(segment, 1)) & 0x0F)
    return np.asarray(code ^ np.where(negative, 0x55, 0xD5), np.uint8)


MULAW: Final = _mulaw()
ALAW: Final = _alaw()


# Milliseconds of one core for a second of audio, rounded up; docs/performance.md has the figures.
_COST_MS: Final = MappingProxyType({"mp3": 2.0, "opus": 7.0, "aac": 8.0, "flac": 1.0})
_BEHIND_ID3: Final = ("mp3", "aac")


class AudioEncoder(Protocol):
    """Turns PCM into what a client asked for; may hold back what its frames still need.

    It holds no more than a frame of its codec, and makes no byte before the first sample came.
    """

    def feed(self, pcm: Pcm) -> bytes: ...

    def finish(self) -> bytes: ...


class Headed:
    """Bytes in front of another encoder's; they leave with its first."""

    def __init__(self, head: bytes, body: AudioEncoder) -> None:
        self._head = head
        self._body = body

    def feed(self, pcm: Pcm) -> bytes:
        return self._behind_head(self._body.feed(pcm))

    def finish(self) -> bytes:
        return self._behind_head(self._body.finish())

    def _behind_head(self, made: bytes) -> bytes:
        if not made:
            return b""
        head, self._head = self._head, b""
        return head + made


def encoder_for(
    wanted: AudioFormat, sample_rate: int, provenance: Provenance | None = None
) -> AudioEncoder:
    """An encoder for audio at `sample_rate` Hz; raises Unsupported where it is not installed.

    provenance: what the container says of the sound's origin; bare samples have no place for it.
    """
    if wanted.container == "wav":
        info = riff_info(provenance)
        head = formats.header(sample_rate, None, wanted.codec, info)
        return Headed(head, _bare(AudioFormat(wanted.codec), sample_rate))
    bare = _bare(wanted, sample_rate, vorbis_comments(provenance))
    head = id3(provenance) if wanted.codec in _BEHIND_ID3 else b""
    return Headed(head, bare) if head else bare


def _bare(wanted: AudioFormat, sample_rate: int, comments: Sequence[str] = ()) -> AudioEncoder:
    match wanted.codec:
        case "pcm_s16le":
            return RawPcm()
        case "pcm_f32le":
            return FloatPcm()
        case "mulaw":
            return Companded(MULAW)
        case "alaw":
            return Companded(ALAW)
        case "mp3":
            return Mp3(sample_rate, wanted.bit_rate)
        case "opus":
            return OggOpus(sample_rate, wanted.bit_rate, comments)
        case "aac":
            return adts_aac(sample_rate, wanted.bit_rate)
        case "flac":
            return Flac(sample_rate, comments)


def ready(wanted: AudioFormat) -> None:
    """Raises Unsupported for a format that is not installed here."""
    if wanted.codec == "aac":
        require_aac(wanted.container)
    if wanted.codec == "opus":
        library()


def cost_ms(wanted: AudioFormat) -> float:
    """Milliseconds of one core that a second of audio takes."""
    return _COST_MS.get(wanted.codec, 0.1)
