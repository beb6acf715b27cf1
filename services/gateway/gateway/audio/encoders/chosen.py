"""The choice of an encoder by format, and its cost."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final, Protocol

from gateway.audio import tags, wav
from gateway.audio.encoders.aac import adts_aac, require_aac
from gateway.audio.encoders.flac import Flac
from gateway.audio.encoders.libopus import library
from gateway.audio.encoders.mp3 import Mp3
from gateway.audio.encoders.opus import OggOpus
from gateway.audio.encoders.raw import ALAW, MULAW, Companded, FloatPcm, RawPcm
from gateway.audio.formats import AudioFormat
from gateway.audio.provenance import Provenance
from gateway.audio.resample import Pcm

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
        info = tags.riff_info(provenance)
        head = wav.header(sample_rate, None, wanted.codec, info)
        return Headed(head, _bare(AudioFormat(wanted.codec), sample_rate))
    bare = _bare(wanted, sample_rate, tags.vorbis_comments(provenance))
    head = tags.id3(provenance) if wanted.codec in _BEHIND_ID3 else b""
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
