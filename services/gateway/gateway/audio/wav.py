"""The 44 bytes in front of PCM that make it a WAV file."""

from __future__ import annotations

import struct
from typing import Final

BYTES_PER_SAMPLE: Final = 2
UNKNOWN_SIZE: Final = 0xFFFFFFFF


def header(sample_rate: int, samples: int | None) -> bytes:
    """RIFF header for mono s16le; `samples` None leaves both sizes unknown, as a stream must."""
    data = UNKNOWN_SIZE if samples is None else samples * BYTES_PER_SAMPLE
    riff = UNKNOWN_SIZE if samples is None else 36 + data
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF", riff, b"WAVE", b"fmt ", 16, 1, 1,
        sample_rate, sample_rate * BYTES_PER_SAMPLE, BYTES_PER_SAMPLE, 16, b"data", data,
    )  # fmt: skip
