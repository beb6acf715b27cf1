"""MPEG layer III by LAME."""

from __future__ import annotations

from typing import Final

import lameenc

from gateway.audio.resample import Pcm

# LAME's scale from 0 (best) to 9: speech at these bit rates sounds alike from 2 to 7.
_QUALITY: Final = 7
_FULL_BAND_HZ: Final = 32_000


def default_bit_rate(sample_rate: int) -> int:
    """Bits a second that speech at `sample_rate` Hz needs."""
    return 128_000 if sample_rate >= _FULL_BAND_HZ else 64_000


class Mp3:
    """Constant bit rate, mono, without an info frame: frames from the first byte on."""

    def __init__(self, sample_rate: int, bit_rate: int | None) -> None:
        self._encoder = lameenc.Encoder()
        self._encoder.set_bit_rate((bit_rate or default_bit_rate(sample_rate)) // 1000)
        self._encoder.set_in_sample_rate(sample_rate)
        self._encoder.set_out_sample_rate(sample_rate)
        self._encoder.set_channels(1)
        self._encoder.set_quality(_QUALITY)
        self._encoder.silence()
        self._fed = False

    def feed(self, pcm: Pcm) -> bytes:
        self._fed = True
        return bytes(self._encoder.encode(pcm.astype("<i2", copy=False).tobytes()))

    def finish(self) -> bytes:
        return bytes(self._encoder.flush()) if self._fed else b""
