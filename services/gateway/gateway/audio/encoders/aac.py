"""AAC-LC in ADTS by FFmpeg. PyAV is an optional extra: its wheels bundle GPL libraries."""

from __future__ import annotations

import ctypes
import struct
import weakref
from ctypes import POINTER, Structure, byref, c_int32, c_int64, c_short, c_uint32, c_void_p
from fractions import Fraction
from functools import cache
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from gateway.audio.formats import Container
from gateway.audio.resample import Pcm
from gateway.errors import Unsupported

_FILES: Final = ("libvo-aacenc.so.0", "libvo-aacenc.0.dylib")
# The sound comes late by a frame, and by what the encoder looks ahead for beats.
_DELAY: Final = 1024 + 576
_MOST_BYTES: Final = 6144 // 8 + 64

_CODING_AAC: Final = 8
_SETTINGS: Final = 0x42211040
_MEMORY: Final = ("Alloc", "Free", "Set", "Copy", "Check", "Compare", "Move")
# The extra `aac`, in words that pip understands wherever this was installed from.
REQUIREMENT: Final = "av>=18.1,<19"

_FRAME_SAMPLES: Final = 1024
_DEFAULT_BIT_RATE: Final = 64_000
_RATES_HZ: Final = (
    96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8000,
)  # fmt: skip


def adts_aac(sample_rate: int, bit_rate: int | None) -> AdtsAac | VisualOnAac:
    """By FFmpeg where PyAV is installed, else by VisualOn's; raises Unsupported without either."""
    if find_spec("av") is None and library() is not None:
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
    if container == "mp4" or library() is None:
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


class _Functions(Structure):
    _fields_ = [
        ("init", ctypes.CFUNCTYPE(c_uint32, POINTER(c_void_p), c_int32, c_void_p)),
        ("give", ctypes.CFUNCTYPE(c_uint32, c_void_p, c_void_p)),
        ("take", ctypes.CFUNCTYPE(c_uint32, c_void_p, c_void_p, c_void_p)),
        ("set", ctypes.CFUNCTYPE(c_uint32, c_void_p, c_int32, c_void_p)),
        ("get", ctypes.CFUNCTYPE(c_uint32, c_void_p, c_int32, c_void_p)),
        ("close", ctypes.CFUNCTYPE(c_uint32, c_void_p)),
    ]


class _Buffer(Structure):
    _fields_ = [("data", c_void_p), ("length", c_uint32), ("time", c_int64)]


class _Made(Structure):
    _fields_ = [("format", c_int32 * 3), ("used", c_uint32), ("reserved", c_uint32)]


class _Settings(Structure):
    _fields_ = [("rate", c_int32), ("bit_rate", c_int32), ("channels", c_short), ("adts", c_short)]


class _Memory(Structure):
    _fields_ = [(name, c_void_p) for name in _MEMORY]


class _UserData(Structure):
    _fields_ = [("flag", c_uint32), ("memory", c_void_p), ("reserved", c_int32 * 2)]


class VisualOnFailed(Exception):
    """The encoder refused what it was told; the text has its number."""


@cache
def library() -> ctypes.CDLL | None:
    """None where the system has none."""
    for name in _FILES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


class VisualOnAac:
    """Mono. Only where there is a `library`; raises VisualOnFailed where it refuses."""

    def __init__(self, sample_rate: int, bit_rate: int | None) -> None:
        found = library()
        assert found is not None, "ask for the library first"
        self._functions = _Functions()
        found.voGetAACEncAPI(byref(self._functions))
        own = [ctypes.cast(getattr(found, f"cmnMem{name}"), c_void_p) for name in _MEMORY]
        self._memory = _Memory(*own)
        told = _UserData(0, ctypes.addressof(self._memory))
        self._state = c_void_p()
        self._checked(self._functions.init(byref(self._state), _CODING_AAC, byref(told)))
        weakref.finalize(self, _closed, self._functions, self._memory, self._state)
        wanted = _Settings(sample_rate, bit_rate or _DEFAULT_BIT_RATE, 1, 1)
        self._checked(self._functions.set(self._state, _SETTINGS, byref(wanted)))
        self._held: Pcm = np.zeros(0, np.int16)
        self._fed = False
        self._packet = ctypes.create_string_buffer(_MOST_BYTES)

    def feed(self, pcm: Pcm) -> bytes:
        self._fed = self._fed or len(pcm) > 0
        held = np.concatenate([self._held, pcm])
        whole = len(held) // _FRAME_SAMPLES * _FRAME_SAMPLES
        self._held = held[whole:]
        blocks = held[:whole].reshape(-1, _FRAME_SAMPLES)
        return b"".join(self._encode(block) for block in blocks)

    def finish(self) -> bytes:
        if not self._fed:
            return b""
        rest = -(len(self._held) + _DELAY) % _FRAME_SAMPLES + _DELAY
        return self.feed(np.zeros(rest, np.int16))

    def _encode(self, samples: Pcm) -> bytes:
        block = np.ascontiguousarray(samples, np.int16)
        given = _Buffer(block.ctypes.data, block.nbytes)
        self._checked(self._functions.give(self._state, byref(given)))
        packet, made = _Buffer(ctypes.addressof(self._packet), _MOST_BYTES), _Made()
        self._checked(self._functions.take(self._state, byref(packet), byref(made)))
        return self._packet.raw[: packet.length]

    @staticmethod
    def _checked(status: int) -> None:
        if status:
            raise VisualOnFailed(f"vo-aacenc said {status:#x}")


def _closed(functions: _Functions, memory: _Memory, state: c_void_p) -> None:
    """The memory's functions are needed to the end."""
    functions.close(state)
    del memory
