"""WAV: read a header from a stream that arrives in pieces, and write a file."""

from __future__ import annotations

import struct
import wave
from dataclasses import dataclass
from pathlib import Path

_PCM = 1
_EXTENSIBLE = 0xFFFE


class BadWav(ValueError):
    """The stream is not 16-bit PCM in a RIFF/WAVE file."""


@dataclass(frozen=True)
class Layout:
    """What the header says."""

    sample_rate: int
    channels: int


class WavStream:
    """Strips the header off a WAV stream; sizes in it are ignored, streams cannot know them."""

    def __init__(self) -> None:
        self.layout: Layout | None = None
        self._head = b""
        self._in_data = False

    def feed(self, data: bytes) -> bytes:
        """Returns the PCM bytes that `data` completes; raises BadWav."""
        if self._in_data:
            return data
        self._head += data
        if self._head[:4] != b"RIFF"[: len(self._head)]:
            raise BadWav("the response does not start as a RIFF file")
        return self._scan()

    def _scan(self) -> bytes:
        head, at = self._head, 12
        while len(head) >= at + 8:
            name, size = struct.unpack_from("<4sI", head, at)
            body = at + 8
            if name == b"data":
                if self.layout is None:
                    raise BadWav("data before its format")
                self._in_data, self._head = True, b""
                return head[body:]
            if len(head) < body + size:
                break
            if name == b"fmt ":
                self.layout = _layout(head[body : body + size])
            at = body + size + size % 2
        return b""


def _layout(fields: bytes) -> Layout:
    if len(fields) < 16:
        raise BadWav("the format chunk is too short")
    kind, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", fields)
    if kind not in (_PCM, _EXTENSIBLE) or bits != 16 or not channels or not rate:
        raise BadWav(f"only 16-bit PCM is understood, not format {kind} with {bits} bits")
    return Layout(sample_rate=rate, channels=channels)


def write_wav(path: Path, pcm: bytes, sample_rate: int) -> None:
    """Writes mono int16 `pcm`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(pcm)
