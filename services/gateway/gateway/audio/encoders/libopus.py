"""libopus, as far as an encoder needs it.

The shared library is that of the package `opuslib-next-bundled`, none of whose code runs, or the
system's (Debian: libopus0), as in the image.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np

from gateway.audio.resample import Pcm
from gateway.errors import Unsupported

_PACKAGE: Final = "opuslib_next"
_FILES: Final = ("libopus.so", "libopus.dylib")
_OF_THE_SYSTEM: Final = ("libopus.so.0", "libopus.0.dylib")

# opus_defines.h
_AUDIO: Final = 2049
_SET_BITRATE: Final = 4002
_SET_COMPLEXITY: Final = 4010
_GET_LOOKAHEAD: Final = 4027
# The longest packet that its documentation recommends room for.
_PACKET_BYTES: Final = 4000


class OpusFailed(Exception):
    """libopus refused what it was told; the text is its own."""


def candidates() -> Iterator[str]:
    """Where the library may lie, the package's in front."""
    spec = find_spec(_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        yield from (str(Path(folder) / "_native" / name) for name in _FILES)
    yield from _OF_THE_SYSTEM


@cache
def library() -> ctypes.CDLL:
    """libopus with its signatures; raises Unsupported where there is none."""
    for name in candidates():
        try:
            return _declared(ctypes.CDLL(name))
        except OSError:
            continue
    raise Unsupported(
        "Opus needs libopus: install antiphon-gateway[opus], or the system's (Debian: libopus0)",
        param="response_format",
    )


def _declared(found: ctypes.CDLL) -> ctypes.CDLL:
    found.opus_strerror.restype = ctypes.c_char_p
    found.opus_encoder_create.restype = ctypes.c_void_p
    found.opus_encoder_create.argtypes = [
        *(ctypes.c_int32, ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_int)),
    ]
    found.opus_encoder_destroy.argtypes = [ctypes.c_void_p]
    # What comes behind these two is variadic.
    found.opus_encoder_ctl.argtypes = [ctypes.c_void_p, ctypes.c_int]
    found.opus_encode.argtypes = [
        *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_int32),
    ]
    return found


class OpusEncoder:
    """Mono, for speech and music alike; `sample_rate` is one of Opus' own five.

    Raises Unsupported where libopus is not installed, OpusFailed where it refuses.
    """

    def __init__(self, sample_rate: int, bit_rate: int, complexity: int) -> None:
        self._library, error = library(), ctypes.c_int()
        made = self._library.opus_encoder_create(sample_rate, 1, _AUDIO, ctypes.byref(error))
        self._checked(error.value)
        self._state = ctypes.c_void_p(made)
        weakref.finalize(self, self._library.opus_encoder_destroy, self._state)
        self._packet = ctypes.create_string_buffer(_PACKET_BYTES)
        self._tell(_SET_BITRATE, ctypes.c_int32(bit_rate))
        self._tell(_SET_COMPLEXITY, ctypes.c_int32(complexity))

    @property
    def lookahead(self) -> int:
        """Samples that the sound comes late by."""
        found = ctypes.c_int32()
        self._tell(_GET_LOOKAHEAD, ctypes.byref(found))
        return found.value

    def encode(self, frame: Pcm) -> bytes:
        """A packet of [samples] int16, of a length that Opus has."""
        samples = np.ascontiguousarray(frame, dtype=np.int16)
        length = self._library.opus_encode(
            self._state, samples.ctypes.data, len(samples), self._packet, _PACKET_BYTES
        )
        return self._packet.raw[: self._checked(length)]

    def _tell(self, request: int, value: object) -> None:
        self._checked(self._library.opus_encoder_ctl(self._state, request, value))

    def _checked(self, status: int) -> int:
        if status < 0:
            raise OpusFailed(self._library.opus_strerror(status).decode())
        return status
