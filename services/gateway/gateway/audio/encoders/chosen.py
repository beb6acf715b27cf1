"""The choice of an encoder by format, and its cost."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, Protocol

from gateway.audio import wav
from gateway.audio.encoders.aac import AdtsAac, require_av
from gateway.audio.encoders.flac import Flac
from gateway.audio.encoders.libopus import library
from gateway.audio.encoders.mp3 import Mp3
from gateway.audio.encoders.opus import OggOpus
from gateway.audio.encoders.raw import ALAW, MULAW, Companded, FloatPcm, RawPcm
from gateway.audio.formats import AudioFormat
from gateway.audio.resample import Pcm

# Milliseconds of one core for a second of audio, rounded up; docs/performance.md has the figures.
_COST_MS: Final = MappingProxyType({"mp3": 2.0, "opus": 7.0, "aac": 8.0, "flac": 1.0})


class Encoder(Protocol):
    """Turns PCM into what a client asked for; may hold back what its frames still need.

    It holds no more than a frame of its codec, and makes no byte before the first sample came.
    """

    def feed(self, pcm: Pcm) -> bytes: ...

    def finish(self) -> bytes: ...


class StreamedWav:
    """A WAV header of unknown length in front of another encoder's samples."""

    def __init__(self, head: bytes, samples: Encoder) -> None:
        self._head = head
        self._samples = samples

    def feed(self, pcm: Pcm) -> bytes:
        head, self._head = self._head, b""
        return head + self._samples.feed(pcm)

    def finish(self) -> bytes:
        return self._samples.finish()


def encoder_for(wanted: AudioFormat, sample_rate: int) -> Encoder:
    """An encoder for audio at `sample_rate` Hz; raises Unsupported where it is not installed."""
    if wanted.container == "wav":
        bare = encoder_for(AudioFormat(wanted.codec), sample_rate)
        return StreamedWav(wav.header(sample_rate, None, wanted.codec), bare)
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
            return OggOpus(sample_rate, wanted.bit_rate)
        case "aac":
            return AdtsAac(sample_rate, wanted.bit_rate)
        case "flac":
            return Flac(sample_rate)


def ready(wanted: AudioFormat) -> None:
    """Raises Unsupported for a format that is not installed here."""
    if wanted.codec == "aac":
        require_av()
    if wanted.codec == "opus":
        library()


def cost_ms(wanted: AudioFormat) -> float:
    """Milliseconds of one core that a second of audio takes."""
    return _COST_MS.get(wanted.codec, 0.1)
