"""The one way from a request's audio to a client's bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import numpy as np
from msgspec.structs import replace

from gateway.audio.encoders import AudioEncoder, RawPcm, encoder_for
from gateway.audio.formats import AudioFormat
from gateway.audio.provenance import Provenance
from gateway.audio.resample import Pcm, TimeStretch, resampler
from gateway.audio.watermark import Perth, WatermarkedStream
from ttscommon.wire.messages import AudioChunk, SaidText, WordTime

_NO_WORDS: Final[tuple[WordTime, ...]] = ()
_NOTHING_SAID: Final[tuple[SaidText, ...]] = ()
# A thread takes a tenth of a millisecond to hand work over; below this the loop does it itself.
_LOOP_MS: Final = 1.0
_STRETCH_MS: Final = 6.0
_WATERMARK_MS: Final = 30.0

T = TypeVar("T")


@dataclass(frozen=True)
class PcmBlock:
    """What to send next: `words` and `said` before `data`, made of `samples` more samples.

    An encoder may make nothing of some samples yet; then `data` is empty.
    """

    data: bytes
    samples: int
    words: tuple[WordTime, ...] = _NO_WORDS
    said: tuple[SaidText, ...] = _NOTHING_SAID


class ClientPipe:
    """Skips `skip` samples of what the client would hear, and encodes the rest.

    The silence in front of a request is no part of what clients hear, in samples and in times: what
    is read first, wherever in the request, is read from so much further on (see Checkpoint).

    `stretch` is how many times as fast the audio is to be played as it was made, `gain` how many
    times as loud. cost_ms: what a second of it takes, but for the encoder.
    """

    def __init__(
        self,
        source_hz: int,
        target_hz: int,
        encoder: AudioEncoder | None = None,
        skip: int = 0,
        stretch: float = 1.0,
        gain: float = 1.0,
        watermark: Perth | None = None,
    ) -> None:
        self._gain = gain
        self._source_hz = source_hz
        self._watermark = watermark
        self._marked: WatermarkedStream | None = None
        self._stretch = None if stretch == 1.0 else TimeStretch(source_hz, stretch)
        self._speed = stretch
        self.cost_ms = 0.0 if stretch == 1.0 else _STRETCH_MS
        self.cost_ms += 0.0 if watermark is None else _WATERMARK_MS
        self._resampler = resampler(source_hz, target_hz)
        self._encoder = encoder or RawPcm()
        self._skip = skip
        self._said = 0  # characters
        self._lead: int | None = None  # samples to leave out, as they were made
        self._lead_s = 0.0

    def feed(self, chunk: AudioChunk) -> PcmBlock:
        """What a chunk gives; may be empty."""
        if self._lead is None:
            self._lead = chunk.checkpoint.lead
            self._lead_s = self._lead / chunk.sample_rate
            if self._watermark is not None:
                self._marked = WatermarkedStream(self._watermark, self._source_hz, chunk.start)
        pcm = chunk.pcm.array()[self._lead :]
        self._lead -= min(self._lead, len(chunk.pcm))
        if not len(pcm):
            return PcmBlock(b"", 0, self._timed(chunk.words), self._new(chunk.said))
        if self._marked is not None:
            pcm = self._marked.feed(pcm)
        data, samples = self._encode(self._resampler.feed(self._stretched(pcm)))
        return PcmBlock(data, samples, self._timed(chunk.words), self._new(chunk.said))

    def finish(self) -> PcmBlock:
        """What was held back."""
        last = []
        if self._marked is not None:
            last.append(self._resampler.feed(self._stretched(self._marked.flush())))
        if self._stretch is not None:
            last.append(self._resampler.feed(self._stretch.flush()))
        made = [self._encode(pcm) for pcm in (*last, self._resampler.flush())]
        data = b"".join(data for data, _ in made)
        return PcmBlock(data + self._encoder.finish(), sum(samples for _, samples in made))

    def _stretched(self, pcm: Pcm) -> Pcm:
        return pcm if self._stretch is None else self._stretch.feed(pcm)

    def _encode(self, pcm: Pcm) -> tuple[bytes, int]:
        skipped = min(self._skip, len(pcm))
        self._skip -= skipped
        pcm = pcm[skipped:]
        if self._gain != 1.0:
            pcm = louder(pcm, self._gain)
        return (self._encoder.feed(pcm), len(pcm)) if len(pcm) else (b"", 0)

    def _timed(self, words: tuple[WordTime, ...]) -> tuple[WordTime, ...]:
        """Word times as the client hears them."""
        if not words or (self._stretch is None and not self._lead_s):
            return words
        return tuple(
            replace(word, start_s=self._heard_s(word.start_s), end_s=self._heard_s(word.end_s))
            for word in words
        )

    def _new(self, said: tuple[SaidText, ...]) -> tuple[SaidText, ...]:
        """What was not said before, with its time as the client hears it."""
        new = tuple(
            replace(piece, at_s=self._heard_s(piece.at_s))
            for piece in said
            if piece.end > self._said
        )
        self._said = new[-1].end if new else self._said
        return new

    def _heard_s(self, made_s: float) -> float:
        return max(0.0, made_s - self._lead_s) / self._speed


def louder(pcm: Pcm, gain: float) -> Pcm:
    """So many times as loud; what is beyond the range of 16 bits is cut off."""
    made: Pcm = np.clip(np.rint(pcm * np.float32(gain)), -32_768, 32_767).astype(np.int16)
    return made


async def pieces(
    chunks: AsyncIterable[AudioChunk], pipe: ClientPipe, cost_ms: float = 0.0
) -> AsyncIterator[PcmBlock]:
    """A request's audio as its client takes it; pieces without audio and text are left out.

    `cost_ms`: what a second of audio takes to encode. Expensive chunks are made in a thread.
    """
    cost_ms += pipe.cost_ms
    async for chunk in chunks:
        expected_ms = cost_ms * len(chunk.pcm) / chunk.sample_rate
        piece = await _off_loop(expected_ms, partial(pipe.feed, chunk))
        if piece.data or piece.samples or piece.words or piece.said:
            yield piece
    piece = await _off_loop(cost_ms, pipe.finish)
    if piece.data or piece.samples:
        yield piece


async def _off_loop(expected_ms: float, work: Callable[[], T]) -> T:
    return work() if expected_ms < _LOOP_MS else await asyncio.to_thread(work)


SILENCE_S: Final = 0.2


def silence(
    audio: AudioFormat, sample_rate: int, seconds: float, provenance: Provenance | None = None
) -> Iterator[PcmBlock]:
    """So many seconds in a format, complete."""
    encoder = encoder_for(audio, sample_rate, provenance)
    samples = round(sample_rate * seconds)
    yield PcmBlock(encoder.feed(np.zeros(samples, np.int16)), samples)
    if rest := encoder.finish():
        yield PcmBlock(rest, 0)
