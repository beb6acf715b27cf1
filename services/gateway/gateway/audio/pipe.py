"""The one way from a request's audio to a client's bytes: skip, resample, encode."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, Protocol

from gateway.audio.resample import Pcm, resampler
from ttscommon.messages import AudioChunk, WordTime

_NO_WORDS: Final[tuple[WordTime, ...]] = ()


class Encoder(Protocol):
    """Turns PCM into what a client asked for; may hold back what its frames still need."""

    def feed(self, pcm: Pcm) -> bytes: ...

    def finish(self) -> bytes: ...


class RawPcm:
    """Signed 16-bit little-endian samples."""

    def feed(self, pcm: Pcm) -> bytes:
        return pcm.astype("<i2", copy=False).tobytes()

    def finish(self) -> bytes:
        return b""


@dataclass(frozen=True)
class Piece:
    """What to send next: `words` before `data`, which was made of `samples` more samples.

    An encoder may make nothing of some samples yet; then `data` is empty.
    """

    data: bytes
    samples: int
    words: tuple[WordTime, ...] = _NO_WORDS


class SpokenAudio(Protocol):
    """A Speech, as far as its audio is concerned; see gateway.requests."""

    @property
    def source_hz(self) -> int: ...
    @property
    def sample_rate(self) -> int: ...
    @property
    def skip(self) -> int: ...
    def __aiter__(self) -> AsyncIterator[AudioChunk]: ...


class ClientPipe:
    """Skips `skip` samples at the target rate, after resampling, and encodes the rest."""

    def __init__(
        self, source_hz: int, target_hz: int, encoder: Encoder | None = None, skip: int = 0
    ) -> None:
        self._resampler = resampler(source_hz, target_hz)
        self._encoder = encoder or RawPcm()
        self._skip = skip

    def feed(self, chunk: AudioChunk) -> Piece:
        """What a chunk gives; may be empty."""
        data, samples = self._encode(self._resampler.feed(chunk.pcm.array()))
        return Piece(data, samples, chunk.words)

    def finish(self) -> Piece:
        """What was held back."""
        data, samples = self._encode(self._resampler.flush())
        return Piece(data + self._encoder.finish(), samples)

    def _encode(self, pcm: Pcm) -> tuple[bytes, int]:
        skipped = min(self._skip, len(pcm))
        self._skip -= skipped
        pcm = pcm[skipped:]
        return (self._encoder.feed(pcm), len(pcm)) if len(pcm) else (b"", 0)


async def pieces(speech: SpokenAudio, encoder: Encoder | None = None) -> AsyncIterator[Piece]:
    """A request's audio as its client takes it; pieces without audio and words are left out."""
    pipe = ClientPipe(speech.source_hz, speech.sample_rate, encoder, speech.skip)
    async for chunk in speech:
        piece = pipe.feed(chunk)
        if piece.data or piece.samples or piece.words:
            yield piece
    piece = pipe.finish()
    if piece.data or piece.samples:
        yield piece
