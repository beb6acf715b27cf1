"""The header in front of samples that makes them a WAV file."""

from __future__ import annotations

import struct
from types import MappingProxyType
from typing import Final

from gateway.audio.formats import Codec

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
