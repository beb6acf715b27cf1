"""AAC-LC in ADTS by FFmpeg. PyAV is an optional extra: its wheels bundle GPL libraries."""

from __future__ import annotations

import struct
from fractions import Fraction
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from gateway.audio.encoders.visualon import VisualOnAac
from gateway.audio.encoders.visualon import library as visualon
from gateway.audio.formats import Container
from gateway.audio.resample import Pcm
from gateway.errors import Unsupported

# The extra `aac`, in words that pip understands wherever this was installed from.
REQUIREMENT: Final = "av>=18.1,<19"

_FRAME_SAMPLES: Final = 1024
_DEFAULT_BIT_RATE: Final = 64_000
_RATES_HZ: Final = (
    96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8000,
)  # fmt: skip


def adts_aac(sample_rate: int, bit_rate: int | None) -> AdtsAac | VisualOnAac:
    """By FFmpeg where PyAV is installed, else by VisualOn's; raises Unsupported without either."""
    if find_spec("av") is None and visualon() is not None:
        return VisualOnAac(sample_rate, bit_rate)
    return AdtsAac(sample_rate, bit_rate)


class AdtsAac:
    """Mono; raises Unsupported where PyAV is not installed."""

    def __init__(self, sample_rate: int, bit_rate: int | None) -> None:
        codec_context = require_av().CodecContext.create("aac", "w")
        codec_context.sample_rate = sample_rate
        codec_context.format = "fltp"
        codec_context.layout = "mono"
        codec_context.bit_rate = bit_rate or _DEFAULT_BIT_RATE
        codec_context.time_base = Fraction(1, sample_rate)
        self._codec = codec_context
        self._rate = sample_rate
        self._held: Pcm = np.zeros(0, np.int16)
        self._encoded = 0

    def feed(self, pcm: Pcm) -> bytes:
        held = np.concatenate([self._held, pcm])
        frames = len(held) // _FRAME_SAMPLES
        self._held = held[frames * _FRAME_SAMPLES :]
        blocks = held[: frames * _FRAME_SAMPLES].reshape(frames, _FRAME_SAMPLES)
        return b"".join(self._encode(block) for block in blocks)

    def finish(self) -> bytes:
        last = self._encode(self._held) if len(self._held) else b""
        self._held = self._held[:0]
        return last + self._framed(self._codec.encode(None))

    def _encode(self, samples: Pcm) -> bytes:
        planes = (samples.astype(np.float32) / np.float32(32768)).reshape(1, -1)
        frame = require_av().AudioFrame.from_ndarray(planes, format="fltp", layout="mono")
        frame.sample_rate = self._rate
        frame.pts = self._encoded
        self._encoded += len(samples)
        return self._framed(self._codec.encode(frame))

    def _framed(self, packets: Any) -> bytes:
        return b"".join(adts(bytes(packet), self._rate) for packet in packets)


def adts(packet: bytes, sample_rate: int) -> bytes:
    """An AAC-LC mono packet behind its 7-byte ADTS header (ISO 14496-3, 1.A.2)."""
    length = len(packet) + 7
    index = _RATES_HZ.index(sample_rate)
    # sync, MPEG-4, no CRC; profile LC; rate; one channel; length; buffer fullness "variable"
    bits = (0xFFF1 << 40) | (1 << 38) | (index << 34) | (1 << 30) | (length << 13) | (0x7FF << 2)
    return struct.pack(">Q", bits)[1:] + packet


def require_aac(container: Container) -> None:
    """Raises Unsupported where nothing makes AAC for a container; MP4 is FFmpeg's alone."""
    if container == "mp4" or visualon() is None:
        require_av()


def require_av() -> Any:
    """The module; raises Unsupported."""
    try:
        import av
    except ImportError:
        raise Unsupported(
            "aac is not installed at this server; its operator can install libvo-aacenc0 (Debian),"
            f" or for m4b too: pip install '{REQUIREMENT}'",
            param="response_format",
        ) from None
    return av
