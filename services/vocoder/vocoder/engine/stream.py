"""One stream in the engine: frames that wait, samples that went out, and when playback ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ttscommon.messages import SpeechRequest
from vocoder.codecs.base import CodecSpec, Codes, Samples, State, Work
from vocoder.engine.scheduler import Ready
from vocoder.pcm import to_pcm


@dataclass(frozen=True, eq=False)
class Piece:
    """New audio, [samples] int16, right behind what came before.

    A successor that goes on behind it may restore the codec's `mark` at `frame`.
    """

    pcm: npt.NDArray[np.int16]
    frame: int = 0
    mark: bytes = b""


@dataclass(frozen=True)
class Finished:
    """Everything is out, the tail included; the slot is free."""


@dataclass(frozen=True, eq=False)
class Failed:
    """The stream ended early; the slot is free."""

    error: Exception


Event: TypeAlias = Piece | Finished | Failed
Listener: TypeAlias = Callable[[Event], object]


@dataclass(eq=False)
class Stream:
    """`skip` samples were sent by a predecessor: those decoded again are not sent again.

    A successor's stream is fed from `spec.replay_from(resume_frame)` on, and `mark` is the
    codec's at `resume_frame`.
    """

    request: SpeechRequest
    spec: CodecSpec
    state: State
    listener: Listener
    skip: int
    opened_s: float
    resume_frame: int = 0
    mark: bytes = b""
    ended: bool = False
    passed_over: int = 0
    sent: bool = False
    _waiting: deque[Codes] = field(default_factory=deque)
    _frames_waiting: int = 0
    _frames_decoded: int = 0
    _position: int = 0
    _playback_start_s: float | None = None
    _marks: deque[tuple[int, bytes]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self._frames_decoded = self.spec.replay_from(self.resume_frame)
        self._position = self.spec.samples(self._frames_decoded, final=False)

    @property
    def frames_waiting(self) -> int:
        return self._frames_waiting

    @property
    def ready(self) -> bool:
        return self._frames_waiting > 0 or self.ended

    @property
    def empty(self) -> bool:
        """It ended without a single frame."""
        return self.ended and not self._frames_waiting and not self._frames_decoded

    @property
    def restorable(self) -> bool:
        """The context is decoded, and nothing behind it: now is the time for the mark."""
        return bool(self.mark) and self._frames_decoded == self.resume_frame

    @property
    def deadline_s(self) -> float:
        """When the listener runs dry, if playback began with the first sample or as told since."""
        if self._playback_start_s is None:
            return self.opened_s
        return self._playback_start_s + max(self._position, self.skip) / self.spec.sample_rate

    def playback(self, start_s: float) -> None:
        """Playback of the request's first sample was, or would have been, at `start_s`."""
        self._playback_start_s = start_s

    def feed(self, codes: npt.NDArray[np.generic]) -> None:
        """Take [frames, codebooks] codes; raises MalformedMessage."""
        if self.ended:
            raise ValueError("frames after the last one")
        checked = self.spec.check(codes)
        self._waiting.append(checked)
        self._frames_waiting += len(checked)

    def as_ready(self) -> Ready:
        return Ready(
            key=self.request.request_id,
            frames=self._takeable,
            startup=not self.sent and self._playback_start_s is None,
            deadline_s=self.deadline_s,
            arrived_s=self.opened_s,
            passed_over=self.passed_over,
            priority=self.request.priority,
        )

    @property
    def _takeable(self) -> int:
        """Frames that may be decoded as one piece; the mark lies between two."""
        missing = self.resume_frame - self._frames_decoded
        return min(self._frames_waiting, missing) if missing > 0 else self._frames_waiting

    def take(self, frames: int) -> Work:
        """The next `frames` frames as work; with the last of an ended stream comes its tail."""
        parts: list[Codes] = []
        missing = frames
        while missing:
            head = self._waiting.popleft()
            if len(head) > missing:
                self._waiting.appendleft(head[missing:])
                head = head[:missing]
            parts.append(head)
            missing -= len(head)
        self._frames_waiting -= frames
        if not parts:
            parts.append(np.zeros((0, self.spec.codebooks), np.int16))
        return Work(self.state, np.concatenate(parts), self.ended and not self._frames_waiting)

    def collect(self, work: Work, samples: Samples, now: float) -> npt.NDArray[np.int16]:
        """Account for decoded work; returns what is to be sent, perhaps nothing.

        Raises RuntimeError for a codec that gave other samples than it owed.
        """
        self._frames_decoded += len(work.codes)
        start, end = self._position, self.spec.samples(self._frames_decoded, final=work.final)
        if len(samples) != end - start:
            raise RuntimeError(f"the codec gave {len(samples)} samples instead of {end - start}")
        self._position = end
        pcm = to_pcm(samples[max(0, self.skip - start) :])
        if len(pcm) and not self.sent:
            self.sent = True
            if self._playback_start_s is None:
                self._playback_start_s = now - self.skip / self.spec.sample_rate
        return pcm

    def note(self, mark: bytes) -> None:
        """Remember the codec's mark as it is now, until a later one serves as well."""
        self._marks.append((self._frames_decoded, mark))
        while len(self._marks) > 1 and self._settled(self._marks[1][0]):
            self._marks.popleft()

    def piece(self, pcm: npt.NDArray[np.int16]) -> Piece:
        """The collected samples, with the mark to go on from behind them."""
        frame, mark = self._marks[0] if self._marks else (0, b"")
        return Piece(pcm, frame, mark) if self._settled(frame) else Piece(pcm)

    def _settled(self, frame: int) -> bool:
        settled = frame * self.spec.samples_per_frame + self.spec.settle_samples
        return settled <= self._position
