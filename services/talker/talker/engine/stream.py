"""One stream in the engine: what was sent, and how much playback its listener has left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from talker.models.base import Arrays, TalkerStream
from ttscommon.errors import AntiphonError
from ttscommon.messages import SpeechRequest, WordTime

_UNACKNOWLEDGED_CHUNKS: Final = 8


@dataclass(frozen=True)
class ChunkReady:
    """Frames for the bus, arrays of one row a frame."""

    arrays: Arrays
    words: tuple[WordTime, ...]


@dataclass(frozen=True)
class Finished:
    """Everything was said."""


@dataclass(frozen=True)
class Failed:
    """The stream cannot go on; the others can."""

    error: AntiphonError | Exception


class Stopped(Exception):
    """The engine stopped while the stream was in work: no fault of the request."""


Event = ChunkReady | Finished | Failed
Listener = Callable[[Event], None]


@dataclass(eq=False)
class Stream:
    """A request inside the engine."""

    request: SpeechRequest
    model: TalkerStream
    listener: Listener
    arrived_s: float
    playback_start_s: float | None = None
    first_sent_s: float | None = None
    sent_frames: int = 0
    sent_chunks: int = 0
    last_frames: int = 0
    credit: int = _UNACKNOWLEDGED_CHUNKS
    passed_over: int = 0

    def slack_s(self, now: float, frame_rate_hz: float) -> float:
        """Playback left at the listener; before the first sound, time counts from its sending."""
        start = self.playback_start_s if self.playback_start_s is not None else self.first_sent_s
        if start is None:
            return 0.0
        return start + self.sent_frames / frame_rate_hz - now
