"""Files of sound that are written as it comes."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from gateway.audio.encoders import AudioEncoder
from gateway.audio.resample import Pcm, resampler


class SoundFile(Protocol):
    """Takes [samples] int16; whole once it is closed."""

    def write(self, pcm: Pcm) -> None: ...
    def close(self) -> None: ...


class Resampled:
    """Another rate in front of a file."""

    def __init__(self, file: SoundFile, source_hz: int, target_hz: int) -> None:
        self._file = file
        self._resampler = resampler(source_hz, target_hz)

    def write(self, pcm: Pcm) -> None:
        self._file.write(self._resampler.feed(pcm))

    def close(self) -> None:
        self._file.write(self._resampler.flush())
        self._file.close()


class EncodedFile:
    """What an encoder makes, written as it comes."""

    def __init__(self, path: Path, encoder: AudioEncoder) -> None:
        self._file = path.open("wb")
        self._encoder = encoder

    def write(self, pcm: Pcm) -> None:
        if len(pcm):
            self._file.write(self._encoder.feed(pcm))

    def close(self) -> None:
        with self._file:
            self._file.write(self._encoder.finish())
