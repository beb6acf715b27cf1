"""MPEG layer III: how many samples are in a stream that arrives in pieces, without decoding it."""

from __future__ import annotations

from typing import Final

_HEAD: Final = 4
_TAG: Final = 10
# By the header's bits for version and bit rate: kbit/s of layer III.
_KBIT_S: Final = {
    "1": (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    "2": (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES_HZ: Final = {
    3: (44_100, 48_000, 32_000),
    2: (22_050, 24_000, 16_000),
    0: (11_025, 12_000, 8000),
}


class BadMp3(ValueError):
    """The stream is not a row of MPEG layer III frames."""


class Mp3Stream:
    """Counts the samples of whole frames, behind a tag or not. `sample_rate` (Hz) is known after
    the first."""

    def __init__(self) -> None:
        self.sample_rate: int | None = None
        self._held = b""
        self._begun = False

    def feed(self, data: bytes) -> int:
        """Samples of the frames that `data` completes; raises BadMp3."""
        self._held += data
        if not self._begun:
            self._skip_tag()
        return self._count() if self._begun else 0

    def _skip_tag(self) -> None:
        """Drop an ID3v2 tag from the front once it is whole (ID3v2.4.0 structure, 3.1)."""
        head = self._held[:_TAG]
        tagged = head[:3] == b"ID3"[: len(head)]
        if tagged and len(head) < _TAG:
            return
        end = _TAG + sum(byte << 7 * n for n, byte in enumerate(head[:5:-1])) if tagged else 0
        if len(self._held) >= end:
            self._held, self._begun = self._held[end:], True

    def _count(self) -> int:
        data = self._held
        at = samples = 0
        while len(data) >= at + _HEAD:
            length, count = self._frame(data[at : at + _HEAD])
            if len(data) < at + length:
                break
            at += length
            samples += count
        self._held = data[at:]
        return samples

    def _frame(self, head: bytes) -> tuple[int, int]:
        """Bytes and samples of the frame that begins with `head` (ISO/IEC 11172-3, 2.4.2.3)."""
        version, layer = head[1] >> 3 & 3, head[1] >> 1 & 3
        rate, speed = head[2] >> 4, head[2] >> 2 & 3
        synchronised = head[0] == 0xFF and head[1] >> 5 == 7
        if not synchronised or version == 1 or layer != 1 or rate in (0, 15) or speed == 3:
            raise BadMp3(f"no frame of layer III begins with {head.hex()}")
        kbit_s = _KBIT_S["1" if version == 3 else "2"][rate - 1]
        self.sample_rate = _RATES_HZ[version][speed]
        count = 1152 if version == 3 else 576
        return count // 8 * kbit_s * 1000 // self.sample_rate + (head[2] >> 1 & 1), count
