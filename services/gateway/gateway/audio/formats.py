"""The audio formats a client may ask for, whatever protocol it speaks, and the header of WAV."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

Codec: TypeAlias = Literal["pcm_s16le", "pcm_f32le", "mulaw", "alaw", "mp3", "opus", "aac", "flac"]
Container: TypeAlias = Literal["none", "wav", "mp4"]

_MPEG_HZ: Final = (8000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
_OPUS_HZ: Final = (8000, 12_000, 16_000, 24_000, 48_000)

# What a codec can be made at, in Hz, ascending; anything where it is not listed.
_RATES_HZ: Final = MappingProxyType({"mp3": _MPEG_HZ, "aac": _MPEG_HZ, "opus": _OPUS_HZ})

_MEDIA_TYPES: Final = MappingProxyType(
    {
        "pcm_s16le": "audio/pcm",
        "pcm_f32le": "audio/pcm",
        "mulaw": "audio/basic",
        "alaw": "audio/x-alaw-basic",
        "mp3": "audio/mpeg",
        "opus": "audio/ogg",
        "aac": "audio/aac",
        "flac": "audio/flac",
    }
)
_CONTAINERS: Final = MappingProxyType({"wav": "audio/wav", "mp4": "audio/mp4"})
_BYTES_PER_SAMPLE: Final = MappingProxyType({"pcm_s16le": 2, "pcm_f32le": 4, "mulaw": 1, "alaw": 1})


@dataclass(frozen=True)
class AudioFormat:
    """A codec, its container, and the bits a second it may take (the codec's own by default)."""

    codec: Codec = "pcm_s16le"
    container: Container = "none"
    bit_rate: int | None = None

    @property
    def media_type(self) -> str:
        return _CONTAINERS.get(self.container) or _MEDIA_TYPES[self.codec]

    @property
    def raw(self) -> bool:
        """Whether the bytes are bare samples, so that nothing in them tells the rate."""
        return self.container == "none" and self.codec in _BYTES_PER_SAMPLE

    @property
    def sample_bytes(self) -> int:
        """The size of one sample; raises KeyError for a codec that packs several."""
        return _BYTES_PER_SAMPLE[self.codec]

    def rate_for(self, wanted_hz: int) -> int:
        """The rate nearest above `wanted_hz` that the codec can be made at."""
        rates = _RATES_HZ.get(self.codec)
        if rates is None:
            return wanted_hz
        return next((rate for rate in rates if rate >= wanted_hz), rates[-1])


BYTES_PER_SAMPLE: Final = 2
UNKNOWN_SIZE: Final = 0xFFFFFFFF

# WAVE format tags and bytes a sample.
_LAYOUTS: Final = MappingProxyType(
    {"pcm_s16le": (1, 2), "pcm_f32le": (3, 4), "alaw": (6, 1), "mulaw": (7, 1)}
)


def header(
    sample_rate: int, samples: int | None, codec: Codec = "pcm_s16le", info: bytes = b""
) -> bytes:
    """44 bytes of RIFF for mono; `samples` None leaves both sizes unknown, as a stream must.

    info: whole chunks of an even length to stand in front of the samples. Raises KeyError for a
    codec that no WAV holds here.
    """
    tag, width = _LAYOUTS[codec]
    data = UNKNOWN_SIZE if samples is None else samples * width
    riff = UNKNOWN_SIZE if samples is None else 36 + len(info) + data
    layout = struct.pack(
        "<4sI4s4sIHHIIHH",
        b"RIFF", riff, b"WAVE", b"fmt ", 16, tag, 1,
        sample_rate, sample_rate * width, width, 8 * width,
    )  # fmt: skip
    return layout + info + struct.pack("<4sI", b"data", data)
