"""Where speech goes: a WAV file, raw samples, a player, or several of them."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
import wave
from pathlib import Path
from typing import BinaryIO, Final, Protocol

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


class NoPlayer(Exception):
    """Nothing on this machine plays sound."""

    def __init__(self) -> None:
        super().__init__(f"no player found ({', '.join(_PLAYERS)}); write a file with -o out.wav")


class PlayerFailed(Exception):
    """The player is there but could not play."""


class Sink(Protocol):
    """Takes one stream of mono s16le."""

    def open(self, sample_rate: int) -> None:
        """Called once, before the first samples."""
        ...

    def write(self, pcm: bytes) -> None: ...

    def close(self) -> None:
        """Called once, also when nothing was opened."""
        ...


class WavFile:
    """A WAV file; its header carries the exact length once it is closed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: wave.Wave_write | None = None

    def open(self, sample_rate: int) -> None:
        self._file = wave.open(str(self._path), "wb")  # noqa: SIM115 - closed in close()
        self._file.setnchannels(1)
        self._file.setsampwidth(2)
        self._file.setframerate(sample_rate)

    def write(self, pcm: bytes) -> None:
        assert self._file is not None
        self._file.writeframesraw(pcm)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class RawOutput:
    """Raw samples to a binary stream, as they come."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def open(self, sample_rate: int) -> None:
        pass

    def write(self, pcm: bytes) -> None:
        self._stream.write(pcm)
        self._stream.flush()

    def close(self) -> None:
        pass


class Player:
    """A player program; `close` waits until it has played to the end."""

    def __init__(self) -> None:
        self._name = next((name for name in _PLAYERS if shutil.which(name)), None)
        if self._name is None:
            raise NoPlayer
        self._process: subprocess.Popen[bytes] | None = None
        # A file, because nobody would empty a pipe before the end.
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()

    def open(self, sample_rate: int) -> None:
        assert self._name is not None
        arguments = [part.format(rate=sample_rate) for part in _PLAYERS[self._name]]
        self._process = subprocess.Popen(
            [self._name, *arguments], stdin=subprocess.PIPE, stderr=self._complaints
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
            if self._process.wait() != 0:
                self._complaints.seek(0)
                lines = self._complaints.read().decode(errors="replace").splitlines()
                raise PlayerFailed(f"{self._name} could not play: {''.join(lines[-1:])}")


def sinks(output: str | None, play: bool) -> list[Sink]:
    """`-` is raw on stdout, anything else a WAV; without an output it plays; raises NoPlayer."""
    chosen: list[Sink] = []
    if output == "-":
        chosen.append(RawOutput(sys.stdout.buffer))
    elif output is not None:
        chosen.append(WavFile(Path(output)))
    if play or output is None:
        chosen.append(Player())
    return chosen
