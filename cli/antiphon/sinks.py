"""Destinations of speech: a file, raw samples, a player, or several of them."""

from __future__ import annotations

import contextlib
import errno
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, Protocol

import numpy as np
import soundfile

from gateway.audio import Pcm, Provenance, files, formats
from gateway.audio.encoders import encoder_for, ready
from gateway.audio.formats import AudioFormat, Codec
from gateway.audio.provenance import riff_info
from gateway.errors import Unsupported

# Each reads mono s16le from its standard input; the first that is installed plays.
_PLAYERS: Final[dict[str, tuple[str, ...]]] = {
    "aplay": ("-q", "-t", "raw", "-f", "S16_LE", "-c", "1", "-r", "{rate}", "-"),
    "paplay": ("--raw", "--format=s16le", "--channels=1", "--rate={rate}"),
    "pw-play": ("--format=s16", "--channels=1", "--rate={rate}", "-"),
    "ffplay": (
        *("-nodisp", "-autoexit", "-loglevel", "error", "-fflags", "nobuffer"),
        *("-f", "s16le", "-ar", "{rate}", "-i", "-"),
    ),
    "play": ("-q", "-t", "raw", "-e", "signed", "-b", "16", "-c", "1", "-r", "{rate}", "-"),
}


_WAV: Final = "wav"
_FLAC: Final = "flac"
_RAW: Final = ("pcm", "raw")
_CODECS: Final[dict[str, Codec]] = {
    "mp3": "mp3", "opus": "opus", "ogg": "opus", "aac": "aac",
}  # fmt: skip
FORMATS: Final = (_WAV, _FLAC, *_CODECS, *_RAW)

# What ffplay says before it goes on in silence, and ends as if all were well.
_NO_DEVICE: Final = ("audio open failed", "No such audio device", "Could not open audio")


class UnknownFormat(Exception):
    """A file's name or --format says something that is not written here."""


class NoPlayer(Exception):
    """Nothing on this machine plays sound."""

    def __init__(self) -> None:
        super().__init__(f"no player found ({', '.join(_PLAYERS)}); write a file with -o out.wav")


class PlayerFailed(Exception):
    """The player is there but could not play."""


class Sink(Protocol):
    """Takes one stream of mono s16le."""

    def open(self, sample_rate: int, provenance: Provenance | None = None) -> None:
        """Called once, before the first samples; provenance: what a file says of their origin."""
        ...

    def write(self, pcm: bytes) -> None: ...

    def close(self) -> None:
        """Called once, also when nothing was opened."""
        ...


class WavFile:
    """A WAV file; its header carries the exact length once it is closed."""

    def __init__(self, path: Path, rate: int, provenance: Provenance | None) -> None:
        self._rate, self._info, self._samples = rate, riff_info(provenance), 0
        self._file = path.open("wb")
        self._file.write(self._header())

    def write(self, pcm: Pcm) -> None:
        self._file.write(pcm.tobytes())
        self._samples += len(pcm)

    def close(self) -> None:
        with self._file:
            self._file.seek(0)
            self._file.write(self._header())

    def _header(self) -> bytes:
        return formats.header(self._rate, self._samples, info=self._info)


def flac_file(path: Path, rate: int, provenance: Provenance | None) -> files.SoundFile:
    """Its header carries the exact length once it is closed."""
    file = soundfile.SoundFile(path, "w", rate, 1, "PCM_16", format="FLAC")
    if provenance is not None:
        file.comment = provenance.comment
    found: files.SoundFile = file
    return found


def encoded_file(
    wanted: AudioFormat, path: Path, rate: int, provenance: Provenance | None
) -> files.SoundFile:
    """A file of another codec, encoded as it comes."""
    target = wanted.rate_for(rate)
    encoded = files.EncodedFile(path, encoder_for(wanted, target, provenance))
    return files.Resampled(encoded, rate, target)


class FileSink:
    """A file that is not there before its first samples. begin: opens one of a rate."""

    def __init__(
        self, path: Path, begin: Callable[[Path, int, Provenance | None], files.SoundFile]
    ) -> None:
        self._path, self._begin = path, begin
        self._file: files.SoundFile | None = None

    def open(self, sample_rate: int, provenance: Provenance | None = None) -> None:
        self._file = self._begin(self._path, sample_rate, provenance)

    def write(self, pcm: bytes) -> None:
        assert self._file is not None
        self._file.write(np.frombuffer(pcm, "<i2"))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class RawOutput:
    """Raw samples to a binary stream, as they come."""

    def __init__(self, stream: BinaryIO, *, owned: bool = False) -> None:
        """owned: whether it is closed at the end."""
        self._stream = stream
        self._owned = owned

    def open(self, sample_rate: int, provenance: Provenance | None = None) -> None:
        """Raw samples have no place for what they are."""

    def write(self, pcm: bytes) -> None:
        self._stream.write(pcm)
        self._stream.flush()

    def close(self) -> None:
        if self._owned:
            self._stream.close()


def player_name() -> str:
    """Of the first that is installed; raises NoPlayer."""
    found = next((name for name in _PLAYERS if shutil.which(name)), None)
    if found is None:
        raise NoPlayer
    return found


class Player:
    """A player program; `close` waits until it has played to the end."""

    def __init__(self) -> None:
        self.name = player_name()
        self._process: subprocess.Popen[bytes] | None = None
        # A file, because a pipe would not be emptied before the end.
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()

    def open(self, sample_rate: int, provenance: Provenance | None = None) -> None:
        arguments = [part.format(rate=sample_rate) for part in _PLAYERS[self.name]]
        self._process = subprocess.Popen(
            [self.name, *arguments], stdin=subprocess.PIPE, stderr=self._complaints
        )

    def write(self, pcm: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(pcm)
            self._process.stdin.flush()

    def close(self) -> None:
        """Raises PlayerFailed."""
        with self._complaints:
            if self._process is None:
                return
            assert self._process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
            status = self._process.wait()
            self._complaints.seek(0)
            lines = self._complaints.read().decode(errors="replace").splitlines()
            if status != 0 or any(sign in line for line in lines for sign in _NO_DEVICE):
                raise PlayerFailed(f"{self.name} could not play: {''.join(lines[-1:])}")


def sinks(output: str | None, play: bool, format_: str | None = None) -> list[Sink]:
    """`-` is raw on stdout, anything else a file; without an output it plays.

    format_: one of FORMATS, by the file's name if not given. Raises NoPlayer, UnknownFormat.
    """
    chosen: list[Sink] = []
    if output == "-":
        chosen.append(RawOutput(sys.stdout.buffer))
    elif output is not None:
        chosen.append(_file(Path(output), format_))
    if play or output is None:
        chosen.append(Player())
    return chosen


def close_all(opened: Sequence[Sink]) -> None:
    """Each of them, whatever becomes of the others; raises what the last one that failed did."""
    with contextlib.ExitStack() as stack:
        for sink in opened:
            stack.callback(sink.close)


def require_folders(*files: Path | None) -> None:
    """Raises FileNotFoundError before all is spoken, where a file could not be made behind it."""
    for path in files:
        if path is not None and not path.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "there is no folder", str(path.parent))


def _file(path: Path, format_: str | None) -> Sink:
    require_folders(path)
    name = (format_ or path.suffix.removeprefix(".") or _WAV).lower()
    if name == _WAV:
        return FileSink(path, WavFile)
    if name == _FLAC:
        return FileSink(path, flac_file)
    if name in _RAW:
        return RawOutput(path.open("wb"), owned=True)
    if name not in _CODECS:
        raise UnknownFormat(f"{name!r} is no format that is written here: {', '.join(FORMATS)}")
    require(name)
    return FileSink(path, partial(encoded_file, AudioFormat(_CODECS[name])))


def require(name: str) -> None:
    """Raises UnknownFormat for a codec that is not installed here."""
    try:
        ready(AudioFormat(_CODECS[name]))
    except Unsupported as error:
        raise UnknownFormat(error.message) from error
