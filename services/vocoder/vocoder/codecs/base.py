"""What a codec family implements, and all that the engine knows of it. No torch here.

A family opens a `State` per stream and decodes batches of new frames of many streams. The
engine does the rest: slots, batching, deadlines, recovery, metrics. Where the state lives is
the family's own business: tensors per stream, rows of stacked buffers for captured graphs, or
the last frames of the codes (windowed decoding: decode the left context again, cut it off).

The contract that recovery stands on: the samples of a stream are a pure function of its seed,
its voice and its codes. They depend neither on how the frames were cut into pieces nor on who
shared the batch.

A family whose memory is bounded says so (`CodecSpec.context_frames`): a successor of a vocoder
that died then decodes that context alone, not the whole stream.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from ttscommon.errors import MalformedMessage
from ttscommon.replicas import Voice

Codes = npt.NDArray[np.int16]
Samples = npt.NDArray[np.float32]

State = Any


@dataclass(frozen=True)
class CodecSpec:
    """What the engine and the cluster need to know of a loaded codec.

    `tail_samples` are held back by the decoder (an overlap not yet complete) until the final
    frame is known: after n frames, n * samples_per_frame - tail_samples have come out.

    `context_frames`: a state opened so many frames before frame n and fed them lacks only the
    mark of n; None: only a state fed all frames will do. Once it has the mark, its samples are
    the undisturbed ones from `settle_samples` behind n on.
    """

    name: str
    family: str
    sample_rate: int
    samples_per_frame: int
    codebooks: int
    codebook_size: int
    tail_samples: int = 0
    context_frames: int | None = None
    settle_samples: int = 0
    voices: tuple[Voice, ...] = ()

    def __post_init__(self) -> None:
        positive = (self.sample_rate, self.samples_per_frame, self.codebooks, self.codebook_size)
        if min(positive) < 1:
            raise ValueError("rates, codebooks and sizes are positive")
        if not 0 <= self.tail_samples < self.samples_per_frame:
            raise ValueError("the tail is shorter than a frame")

    @property
    def frame_rate_hz(self) -> float:
        return self.sample_rate / self.samples_per_frame

    def samples(self, frames: int, *, final: bool) -> int:
        """How many samples the first `frames` frames have given."""
        held_back = 0 if final or frames == 0 else self.tail_samples
        return frames * self.samples_per_frame - held_back

    def replay_from(self, frame: int) -> int:
        """The first frame to feed to a state that is to be as if it had been fed all of `frame`."""
        return 0 if self.context_frames is None else max(0, frame - self.context_frames)

    def check(self, codes: npt.NDArray[Any]) -> Codes:
        """`codes` as [frames, codebooks] int16; raises MalformedMessage."""
        if codes.ndim != 2 or codes.shape[1] != self.codebooks or not len(codes):
            raise MalformedMessage(
                f"codes of shape {codes.shape}, {self.codebooks} codebooks wanted"
            )
        if codes.dtype.kind not in "iu" or codes.min() < 0 or codes.max() >= self.codebook_size:
            raise MalformedMessage(f"codes outside 0..{self.codebook_size - 1}")
        return codes.astype(np.int16, copy=False)


@dataclass(frozen=True, eq=False)
class Work:
    """New frames of one stream: `codes` [frames, codebooks] int16, valid, maybe of no frames.

    `final` says that no frame follows: the tail comes out as well.
    """

    state: State
    codes: Codes
    final: bool


class Codec(ABC):
    """A loaded codec. Used by one thread at a time.

    measured_step_s: seconds of a step by (streams, frames), as far as known before any traffic.
    """

    spec: CodecSpec
    measured_step_s: Mapping[tuple[int, int], float] = MappingProxyType({})

    @abstractmethod
    def open(self, seed: int, voice: str, frame: int = 0) -> State:
        """A state that knows of nothing before `frame`; raises UnknownVoice."""

    def mark(self, state: State) -> bytes:
        """What `state` knows that its last `context_frames` do not tell, in a few bytes."""
        del state
        return b""

    def restore(self, state: State, mark: bytes) -> None:
        """Give the mark of its present frame to a state that was opened late.

        Raises MalformedMessage for bytes that are no mark.
        """
        del state, mark

    @abstractmethod
    def decode(self, batch: Sequence[Work]) -> list[Samples]:
        """The new samples of every stream of the batch, [samples] float32 in -1..1.

        All states advance, or, when it raises, none does: the engine then tries each alone.
        """

    def close(self, state: State) -> None:
        """The stream is over. Families that keep rows of shared buffers free them here."""
        del state

    def warm_up(self, shapes: Sequence[tuple[int, int]]) -> None:
        """Run (streams, frames) that will occur, so that no listener pays for the first time.

        Each runs twice: the second time says what it takes.
        """
        for streams, frames in shapes:
            self.measure(streams, frames)
        self.measured_step_s = {shape: self.measure(*shape) for shape in shapes}

    def measure(
        self, streams: int, frames: int, clock: Callable[[], float] = time.perf_counter
    ) -> float:
        """Seconds that a step of `streams` streams, each of `frames` frames, takes now."""
        voice = self.spec.voices[0].id if self.spec.voices else ""
        states = [self.open(0, voice) for _ in range(streams)]
        codes = np.zeros((frames, self.spec.codebooks), np.int16)
        started = clock()
        self.decode([Work(state, codes, final=False) for state in states])
        took_s = clock() - started
        self.decode([Work(state, codes[:0], final=True) for state in states])
        for state in states:
            self.close(state)
        return took_s
