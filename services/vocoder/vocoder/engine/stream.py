"""One stream in the engine: frames that wait, samples that went out, and when playback ends.

Frames are counted as the codec counts them: those of a reference, the `prefix`, come first and are
not heard. Samples are counted as the listener does, from the request's own first frame on.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ttscommon.engine.runtime import Failed, Finished
from ttscommon.wire.fields import Array, Arrays, concatenate, cut, rows, silent
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import CodecSpec, CodecState, Decoded, Due, Work
from vocoder.engine.scheduler import Ready
from vocoder.pcm import Lead, gain_of, levelled, to_pcm

# A listener that has so much in hand loses nothing by a longer piece, and a piece costs every
# process on its way the same whatever its length. Longer than a starved stream waits for its turn.
_AMPLE_S: Final = 3.0
_LONG_S: Final = 2.0
# Until the listener of an offline request could run dry: beyond every other deadline.
_OFFLINE_S: Final = 1e6


@dataclass(frozen=True, eq=False)
class DecodedAudio:
    """New audio, [samples] int16, right behind what came before.

    A successor that goes on behind it may restore the codec's `mark` at `frame`. lead: samples of
    the request that are silence in front.
    """

    pcm: npt.NDArray[np.int16]
    frame: int = 0
    mark: bytes = b""
    lead: int = 0


Event = DecodedAudio | Finished | Failed


@dataclass(frozen=True)
class Resume:
    """Where a successor goes on: `skip` samples were sent, and `mark` is the codec's at `frame`.
    lead: see DecodedAudio; found out again by one that begins at the first frame.
    """

    skip: int = 0
    frame: int = 0
    mark: bytes = b""
    lead: int = 0


def first_frame(spec: CodecSpec, frame: int, prefix: Arrays | None) -> int:
    """The first of the request's frames to feed to a stream that is resumed at `frame`."""
    before = 0 if prefix is None else rows(prefix)
    return max(0, spec.replay_from(frame + before) - before)


def whole_length(spec: CodecSpec, frames: int, prefix: Arrays | None) -> int:
    """Samples of a request of so many frames."""
    before = 0 if prefix is None else rows(prefix)
    return spec.samples(frames + before, final=True) - before * spec.samples_per_frame


# (frames that wait, whether nothing follows them) -> what to solve for next: see Codec.due.
Solves = Callable[[Arrays, bool], Due | None]


class _Kept(NamedTuple):
    """Frames that wait, all of them silence or none."""

    silent: bool
    frames: dict[str, Array]


@dataclass(eq=False)
class Stream:
    """A request inside the engine, fed from `first_frame` on.

    prefix: the frames of its reference, if it has one. `fed_s`: when frames last came while none
    waited. preparing_s: what the segment that comes next has cost so far. solves: of a codec that
    solves for its frames.
    """

    request: SpeechRequest
    spec: CodecSpec
    state: CodecState
    opened_s: float
    resume: Resume = field(default_factory=Resume)
    prefix: Arrays | None = None
    solves: Solves | None = None
    slot: int = -1
    ended: bool = False
    ready_since_s: float | None = None
    fed_s: float = -math.inf
    sent: bool = False
    preparing_s: float = 0.0
    _waiting: deque[_Kept] = field(default_factory=deque)
    _frames_waiting: int = 0
    _silences: bool = False
    _frames_taken: int = 0
    _frames_decoded: int = 0
    _position: int = 0
    _playback_start_s: float | None = None
    _marks: deque[tuple[int, bytes]] = field(default_factory=deque)
    _mark: bytes = b""
    _last_taken: bool = False
    _gathered: list[npt.NDArray[np.int16]] = field(default_factory=list)
    _samples_gathered: int = 0
    _prepared: int = 0  # frames of a whole segment that can be decoded
    _due: Due | None = None
    _due_known: bool = False

    def __post_init__(self) -> None:
        self._before = 0 if self.prefix is None else rows(self.prefix)
        self._resume_frame = self.resume.frame + self._before
        begin = self.begin
        self._mark = self.resume.mark if begin else b""
        self._frames_taken = self._frames_decoded = begin
        self._lead = Lead(self.spec, self.resume.lead)
        text = self.request.text if self.request.text_final else None
        self._gain = gain_of(self.spec.voices, self.request.voice, self.spec.gain_db, text)
        # Behind a passage's end nothing is held back.
        self._position = self._samples(begin, final=self.spec.solves)
        if self.prefix is not None and begin < self._before:
            self._wait_for(cut(self.prefix, begin, self._before))

    @property
    def key(self) -> str:
        return self.request.request_id

    @property
    def begin(self) -> int:
        """The codec's frame at which its state was opened."""
        return self.spec.replay_from(self._resume_frame)

    @property
    def ready(self) -> bool:
        """Something can be decoded now, if only what is held back."""
        if self.ended and not self._frames_waiting:
            return not self._last_taken
        return self._takeable > 0

    @property
    def has_frames(self) -> bool:
        """Frames wait to be taken."""
        return self._frames_waiting > 0

    @property
    def empty(self) -> bool:
        """It ended without a single frame."""
        return self.ended and not self._frames_waiting and self._frames_taken <= self._before

    @property
    def mark_due(self) -> bytes:
        """The mark to restore before the next work: the context is decoded, and nothing behind."""
        return self._mark if self._frames_taken == self._resume_frame else b""

    @property
    def deadline_s(self) -> float:
        """When the listener runs dry, if playback began with the first sample or as told since."""
        if self.request.offline:
            return self.opened_s + _OFFLINE_S
        if self._playback_start_s is None:
            return self.opened_s
        sent = max(self._position, self.resume.skip) - self._samples_gathered
        return self._playback_start_s + sent / self.spec.sample_rate

    def awaits(self, slack_s: float, starved_s: float, now: float) -> bool:
        """Whether codes are to come any moment that its listener needs: less than `slack_s` is
        left, and codes came, or it was opened, within `starved_s`.
        """
        lately = now - max(self.opened_s, self.fed_s) < starved_s
        return lately and not self.ended and self.deadline_s - now < slack_s

    @property
    def position_s(self) -> float:
        """How much of the request was made."""
        return self._position / self.spec.sample_rate

    def playback(self, start_s: float) -> None:
        """Playback of the request's first sample was, or would have been, at `start_s`."""
        self._playback_start_s = start_s

    def feed(self, frames: Arrays) -> None:
        """Take the request's next frames; raises MalformedMessage."""
        if self.ended:
            raise ValueError("frames after the last one")
        found, flags = self.spec.checked(frames), silent(frames)
        ends = [*(np.flatnonzero(np.diff(flags)) + 1).tolist(), rows(found)]
        for start, stop in pairwise((0, *ends)):
            self._wait_for(cut(found, start, stop), silent=bool(flags[start]))

    def finish(self) -> None:
        """No frame follows."""
        self.ended = True
        self._due_known = False

    def as_ready(self, now: float) -> Ready:
        """What the scheduler has to know of it."""
        if self.ready_since_s is None:
            self.ready_since_s = now
        offline = self.request.offline
        return Ready(
            key=self.key,
            frames=self._takeable,
            startup=not (self.sent or offline) and self._playback_start_s is None,
            deadline_s=self.deadline_s,
            arrived_s=self.opened_s,
            waited_s=0.0 if offline else now - self.ready_since_s,
            priority=self.request.priority,
            offline=offline,
            prepares=self.spec.solver_steps > 0 and self._unprepared,
        )

    def take(self, frames: int) -> Work:
        """The next `frames` frames as work; with the last of an ended stream comes the rest."""
        if self._unprepared:
            self.ready_since_s = None
            closes = self.spec.solves and self._next is not None and self._next.closes
            return Work(self.state, self.spec.none(), final=closes, segment=self._segment())
        parts: list[Arrays] = []
        missing, kind = frames, False
        while missing:
            kind, head = self._waiting.popleft()
            if (size := rows(head)) > missing:
                self._waiting.appendleft(_Kept(kind, cut(head, missing, size)))
                head = cut(head, 0, missing)
            parts.append(head)
            missing -= rows(head)
        self._prepared -= 0 if kind else min(frames, self._prepared)
        self._frames_waiting -= frames
        self._frames_taken += frames
        self._due_known = False
        self.ready_since_s = None
        if self._frames_taken > self._resume_frame:
            self._mark = b""
        self._last_taken = self.ended and not self._frames_waiting
        taken = concatenate(parts) if parts else self.spec.none()
        return Work(self.state, taken, self._last_taken, kind)

    def collect(self, work: Work, decoded: Decoded, now: float) -> npt.NDArray[np.int16]:
        """Account for decoded work; returns what is to be sent, perhaps nothing.

        Raises RuntimeError for a codec that gave other samples than it owed.
        """
        if work.segment is not None:
            self._prepared = rows(work.segment) if decoded.prepared else 0
            self._due_known = False
        if not self._frames_decoded:
            self._lead.begin(work.frames)
        self._frames_decoded += len(work)
        over = decoded.ended or (work.final and work.segment is None)
        start, end = self._position, self._samples(self._frames_decoded, final=over)
        end = max(start, end)
        samples = decoded.samples
        if len(samples) != end - start:
            raise RuntimeError(f"the codec gave {len(samples)} samples instead of {end - start}")
        if not np.isfinite(samples).all():
            raise FloatingPointError("the codec computed samples that are not finite")
        self._position = end
        self._note(decoded)
        if self._lead.listens:
            self._lead.hear(to_pcm(samples))
        pcm = to_pcm(levelled(samples, self._gain))[max(0, self.resume.skip - start) :]
        if len(pcm) and not self.sent:
            self.sent = True
            if self._playback_start_s is None:
                before = max(self.resume.skip, self._lead.samples)
                self._playback_start_s = now - before / self.spec.sample_rate
        return pcm

    def gather(self, pcm: npt.NDArray[np.int16], now: float) -> npt.NDArray[np.int16]:
        """`pcm` behind what was gathered before; nothing while more is better waited for."""
        self._gathered.append(pcm)
        self._samples_gathered += len(pcm)
        if self._may_gather(now):
            return pcm[:0]
        gathered, self._gathered, self._samples_gathered = self._gathered, [], 0
        return gathered[0] if len(gathered) == 1 else np.concatenate(gathered)

    def _may_gather(self, now: float) -> bool:
        """More is here to decode, and the listener would not notice."""
        short = self._samples_gathered < _LONG_S * self.spec.sample_rate
        return short and self._takeable > 0 and self.deadline_s - now > _AMPLE_S

    def piece(self, pcm: npt.NDArray[np.int16]) -> DecodedAudio:
        """The collected samples, with the mark to go on from behind them."""
        frame, mark = self._marks[0] if self._marks else (0, b"")
        if frame <= self._before or not self._settled(frame):
            return DecodedAudio(pcm, lead=self._lead.samples)
        return DecodedAudio(pcm, frame - self._before, mark, self._lead.samples)

    @property
    def _takeable(self) -> int:
        """Frames that may be decoded as one piece; a mark to restore lies between two, and so does
        the beginning or end of a silence.
        """
        waiting = alike = self._alike
        if self._mark and (missing := self._resume_frame - self._frames_taken) > 0:
            waiting = min(waiting, missing)
        if waiting and self._waiting[0].silent:
            return waiting
        if self.spec.solves:
            return min(waiting, self._prepared) or int(self._next is not None)
        if self.spec.left and waiting:
            return min(waiting, self._prepared or self._whole(waiting))
        ended = self.ended or alike < self._frames_waiting
        return self.spec.cut(self._frames_taken, waiting, ended=ended and waiting == alike)

    @property
    def _unprepared(self) -> bool:
        """A segment comes next that is to be prepared."""
        if self.spec.solves:
            return not self._prepared and self._next is not None
        waits = self._frames_waiting > 0 and not self._waiting[0].silent
        return bool(self.spec.left) and waits and not self._prepared

    def _whole(self, waiting: int) -> int:
        """Frames of the segment that comes next if it is there, or as much of it as will come."""
        size = 1 + int(self._waiting[0].frames[self.spec.left][0])
        over = self.ended or waiting < self._frames_waiting
        return size if size <= waiting else waiting * over

    @property
    def _next(self) -> Due | None:
        """What the codec solves for next."""
        if not self._due_known:
            waiting = not self._waiting or self._waiting[0].silent
            frames = self.spec.none() if waiting else self._speech()
            silence = rows(frames) < self._frames_waiting
            assert self.solves is not None
            self._due = self.solves(frames, self.ended or silence)
            self._due_known = True
        return self._due

    def _speech(self) -> dict[str, Array]:
        """The frames that wait before any silence."""
        alike = [kept.frames for kept in takewhile(lambda kept: not kept.silent, self._waiting)]
        return concatenate(alike)

    def _segment(self) -> dict[str, Array]:
        """All frames of the segment that comes next."""
        if self.spec.solves:
            count = self._next.frames if self._next else 0
            return cut(self._speech(), 0, count) if count else self.spec.none()
        return cut(self._speech(), 0, self._whole(self._alike))

    @property
    def _alike(self) -> int:
        """How many of the first frames that wait are of one kind."""
        if not self._silences:
            return self._frames_waiting
        same = takewhile(lambda kept: kept.silent == self._waiting[0].silent, self._waiting)
        return sum(rows(kept.frames) for kept in same)

    def _wait_for(self, frames: dict[str, Array], *, silent: bool = False) -> None:
        self._waiting.append(_Kept(silent, frames))
        self._frames_waiting += rows(frames)
        self._silences = self._silences or silent
        self._due_known = False

    def _samples(self, frames: int, *, final: bool) -> int:
        """The listener's position after so many frames of the codec; negative in the prefix."""
        return self.spec.samples(frames, final=final) - self._before * self.spec.samples_per_frame

    def _note(self, decoded: Decoded) -> None:
        """Remember the codec's mark as it is now, until a later one serves as well."""
        if self.spec.context_frames is None or self._prepared:
            return
        if self.spec.solves and not decoded.ended:
            return
        mark = decoded.mark
        if self.resume.mark and self.begin and self._frames_decoded <= self._resume_frame:
            # The context alone does not give a state its mark: that of its end is known, no other.
            if self._frames_decoded < self._resume_frame:
                return
            mark = self.resume.mark
        self._marks.append((self._frames_decoded, mark))
        while len(self._marks) > 1 and self._settled(self._marks[1][0]):
            self._marks.popleft()

    def _settled(self, frame: int) -> bool:
        behind = frame - self._before
        return behind * self.spec.samples_per_frame + self.spec.settle_samples <= self._position
