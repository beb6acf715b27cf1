"""The interface of a codec family, and all that the engine knows of it. No torch here.

A family opens a `CodecState` per stream and decodes batches of new frames of many streams: `launch`
begins, `collect` has the samples. The engine does the rest: slots, batching, deadlines, recovery,
metrics. Where the state lives is the family's own business: tensors per stream, rows of stacked
buffers for captured graphs, or the last frames themselves (windowed decoding: decode the left
context again, cut it off).

The contract that recovery stands on: the samples of a stream are a function of its seed, its voice,
its reference and its frames, at absolute positions. They depend neither on how the frames were cut
into pieces nor on the batch: not at all, or by `CodecSpec.tolerance` at the most.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ttscommon.engine.inflight import LaunchPath
from ttscommon.wire.errors import BadRequest, MalformedMessage
from ttscommon.wire.fields import Arrays, Field, checked, empty, rows
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import Model, Voice

Samples = npt.NDArray[np.float32]

CodecState = Any


@dataclass(frozen=True)
class CodecSpec:
    """What the engine and the cluster need to know of a loaded codec.

    frame: the fields of a frame that it reads, ids or floats.

    conditions: what it is told of a request's reference beside frames, once for a stream: arrays of
    any number of rows, such as a speaker's vector or the mel frames of a prompt.

    `lag_samples` are held back by the decoder (an overlap not yet complete, a lookahead) until the
    final frame is known: after n frames, n * samples_per_frame - lag_samples have come out.

    `delay_frames`: so many frames more than their samples fill, whose codes are delayed: a
    frame's samples need as many frames behind it, even at the end.

    `context_frames`: a state opened so many frames before frame n and fed them lacks only the
    mark of n; None: only a state fed all frames will do. Once it has the mark, its samples are
    the undisturbed ones from `settle_samples` behind n on.

    `left`: of a codec that decodes whole segments, the field of a frame that says how many of its
    segment follow. The frames of a segment are prepared before the first of them is decoded, see
    Work, and a state can only be opened where one begins. Empty for others.

    `solver_steps`: of a codec that solves an equation for its frames, launches that it takes: the
    frames that it solves together are prepared as a segment is, a step a launch, and how many they
    are is said by `Codec.due` where no field says it. Such a stream has passages, at whose ends
    nothing is held back and a state can be opened anew, see `Decoded.ended`; its `context_frames`
    are 0. `most_together`: frames that it solves together at the most.

    `state_bytes`: what a stream's state takes for each of its frames, where that grows.

    `silence`: codes of a frame of the model's own silence, where it is known. What is quiet in
    front of a request's speech is then not sent to its listener, see vocoder/pcm.py.

    `tolerance`: by so many int16 steps may a stream's samples depend on cuts, batch and takeovers.
    0 is exact.

    `gain_db`: of voices that say none.
    """

    name: str
    family: str
    sample_rate: int
    samples_per_frame: int
    frame: Mapping[str, Field]
    lag_samples: int = 0
    delay_frames: int = 0
    context_frames: int | None = None
    settle_samples: int = 0
    tolerance: int = 0
    silence: tuple[int, ...] = ()
    voices: tuple[Voice, ...] = ()
    gain_db: float = 0.0
    conditions: Mapping[str, Field] = field(default_factory=dict)
    left: str = ""
    solver_steps: int = 0
    most_together: int = 0
    state_bytes: int = 0

    def __post_init__(self) -> None:
        if min(self.sample_rate, self.samples_per_frame) < 1 or not self.frame:
            raise ValueError("rates are positive, and frames have fields")
        if min(self.lag_samples, self.delay_frames, self.settle_samples, self.tolerance) < 0:
            raise ValueError("no lag, delay, settling time or tolerance is negative")
        if self.solves and self.context_frames != 0:
            raise ValueError("what is solved together is resumed where a passage begins")

    @property
    def solves(self) -> bool:
        """Whether the codec itself says how many frames are prepared together."""
        return self.solver_steps > 0 and not self.left

    @property
    def prepares(self) -> bool:
        """Whether frames are prepared before they are decoded."""
        return self.solver_steps > 0 or bool(self.left)

    @property
    def frame_rate_hz(self) -> float:
        return self.sample_rate / self.samples_per_frame

    def listed(self, name: str) -> Model:
        """See StageSpec."""
        return Model(name, self.family, self.sample_rate, self.frame_rate_hz, self.voices)

    def samples(self, frames: int, *, final: bool) -> int:
        """How many samples the first `frames` frames have given."""
        complete = (frames - self.delay_frames) * self.samples_per_frame
        return max(0, complete - (0 if final else self.lag_samples))

    def sure(self, frames: int) -> int:
        """How many samples of the first `frames` frames come without another frame, of a codec that
        prepares them: it may take a while. 0 for others.
        """
        if self.solves:
            return self.samples(max(0, frames - self.most_together), final=False)
        return frames * self.samples_per_frame if self.left else 0

    def replay_from(self, frame: int) -> int:
        """The first frame to feed to a state that is to be as if it had been fed all of `frame`."""
        return 0 if self.context_frames is None else max(0, frame - self.context_frames)

    def cut(self, start: int, waiting: int, *, ended: bool) -> int:
        """How many of `waiting` frames from `start` on may be decoded now, as one piece.

        Families that decode on a grid of positions, or wait for a lookahead, take fewer.
        """
        return waiting

    def checked(self, frames: Arrays) -> dict[str, npt.NDArray[Any]]:
        """The fields that the codec reads, [frames, ...] each; raises MalformedMessage."""
        return checked(self.frame, frames)

    def none(self) -> dict[str, npt.NDArray[Any]]:
        """No frame at all."""
        return empty(self.frame)


@dataclass(frozen=True, eq=False)
class Work:
    """New frames of one stream: arrays by field, [frames, ...], valid, maybe of no frames.

    `final` says that no frame follows: what was held back comes out as well. `silent`: all of the
    frames are silence, whatever they hold; see Codec.silences.

    segment: not new frames, but all of a segment whose frames come next. A codec of whole segments
    does a bounded piece of the work that they need, and says when it is `Decoded.prepared`. One
    that solves for them is told by `final` that its passage ends with them; there may be none, see
    `Due`.
    """

    state: CodecState
    frames: Arrays
    final: bool
    silent: bool = False
    segment: Arrays | None = None

    def __len__(self) -> int:
        return rows(self.frames)


@dataclass(frozen=True)
class Due:
    """Frames that a codec would solve for next. closes: their passage ends with them, or, if there
    are none, with those before them, of which some are held back unsolved.
    """

    frames: int
    closes: bool


@dataclass(frozen=True, eq=False)
class Decoded:
    """[samples] float32 in -1..1, and the codec's mark behind the work's last frame.

    prepared: of a work with a segment, whether its frames can be decoded now. ended: of a codec
    that solves, a passage ended with the work's last frame, and nothing is held back.
    """

    samples: Samples
    mark: bytes = b""
    prepared: bool = True
    ended: bool = False


class StateUse(NamedTuple):
    """Of states that grow with their streams: bytes that they take and may take, and how often one
    was computed again because there was no memory to keep it.
    """

    held_bytes: int = 0
    memory_bytes: int = 0
    recomputed: int = 0


class Codec(ABC):
    """A loaded codec. Used by one thread at a time.

    depth: launches that may be in flight when the oldest is collected, see the talker's Runner.
    silences: silence has codes of its own, or silent work is known; see `Silences` for the others.
    measured_step_s: seconds of a step by (streams, frames), as far as known before any traffic.
    usual: of a codec that prepares its frames, how many tell what one costs: most of what a piece
    as short as a step's costs is what any segment costs.
    """

    spec: CodecSpec
    depth: int = 0
    silences: bool = False
    usual: int = 0
    measured_step_s: Mapping[tuple[int, int], float] = MappingProxyType({})

    @property
    def room(self) -> tuple[int, int]:
        """Frames whose state there is still memory for, and of all memory; both 0 where state does
        not grow.
        """
        return 0, 0

    @property
    def state_use(self) -> StateUse:
        """What states take that grow; nothing where none does."""
        return StateUse()

    @abstractmethod
    def open(self, request: SpeechRequest, frame: int = 0) -> CodecState:
        """A state that knows of nothing before `frame`; raises UnknownVoice."""

    @property
    def conditioned(self) -> bool:
        """Whether `prefix` or `conditions` ever gives anything."""
        return bool(self.spec.conditions) or type(self).prefix is not Codec.prefix

    def prefix(self, request: SpeechRequest, reference: Arrays | None = None) -> Arrays | None:
        """Frames of the request's reference, decoded unheard before its own frame 0.

        reference: what the talker derived of the request's recording.
        """
        return None

    def conditions(self, request: SpeechRequest, reference: Arrays | None = None) -> Arrays | None:
        """What of the request's reference `tell` gets; None for a codec that needs no conditions.

        A successor is told the same. Raises BadRequest where there is no reference, and
        MalformedMessage where it is another family's.
        """
        if not self.spec.conditions:
            return None
        if reference is None:
            raise BadRequest("this codec needs the recording of a voice", param="ref_audio")
        missing = self.spec.conditions.keys() - reference.keys()
        if missing:
            raise MalformedMessage(f"a reference without {', '.join(sorted(missing))}")
        wanted = self.spec.conditions.items()
        return {name: one.checked(name, reference[name]) for name, one in wanted}

    def tell(self, state: CodecState, conditions: Arrays) -> None:
        """Give a state its conditions, after `open` and before its first work."""
        del state, conditions

    def go_on_from(self, state: CodecState, prefix: Arrays) -> None:  # noqa: B027
        """The stream's reference, for a codec that begins anew behind silences."""

    def due(self, state: CodecState, frames: Arrays, *, ended: bool) -> Due | None:
        """What to solve for next, of `frames` that wait; None while it takes more of them.

        ended: nothing follows them, or silence. Asked of codecs that solve, see CodecSpec.
        """
        raise NotImplementedError

    @abstractmethod
    def launch(self, batch: Sequence[Work]) -> Any:
        """Begin to decode new frames of every stream of the batch; returns a ticket.

        All states advance, or, when it raises, none does: the engine then finds out which one is
        to blame. Raises DeviceError.
        """

    @abstractmethod
    def collect(self, ticket: Any) -> Sequence[Decoded]:
        """The samples of a launch, a row for each of its works. Raises DeviceError."""

    def paths(self, ticket: Any) -> Sequence[LaunchPath]:
        """How each part of a launch was computed."""
        return ("eager",)

    def restore(self, state: CodecState, mark: bytes) -> None:
        """Give the mark of its present frame to a state that was opened late.

        Raises MalformedMessage for bytes that are no mark.
        """
        del state, mark

    def close(self, state: CodecState) -> None:
        """The stream is over. Families that keep rows of shared buffers free them here."""
        del state

    def decode(self, batch: Sequence[Work]) -> list[Samples]:
        """Launch and collect: the new samples of every stream of the batch."""
        return [decoded.samples for decoded in self.collect(self.launch(batch))]

    def warm_up(self, shapes: Sequence[tuple[int, int]]) -> None:
        """Run (streams, frames) that will occur, so that no request pays for the first time.

        Each runs twice: the second time says what it takes.
        """
        if self.usual:
            _, took_s = (self.measure(1, self.usual) for _ in range(2))
            a_frame_s = took_s / self.usual
            self.measured_step_s = {(n, frames): n * frames * a_frame_s for n, frames in shapes}
            return
        for streams, frames in shapes:
            self.measure(streams, frames)
        self.measured_step_s = {shape: self.measure(*shape) for shape in shapes}

    def asked(self) -> SpeechRequest:
        """A request to measure with."""
        voice = self.spec.voices[0].id if self.spec.voices else ""
        return SpeechRequest("measure", self.spec.name, voice, "")

    def example(self, request: SpeechRequest) -> CodecState:
        """A state to measure with, which has its conditions."""
        return self.open(request)

    def example_frames(self, count: int) -> Arrays:
        """Frames to measure with, all of a segment where there are segments."""
        return {name: field.zeros(count) for name, field in self.spec.frame.items()}

    def measure(
        self, streams: int, frames: int, clock: Callable[[], float] = time.perf_counter
    ) -> float:
        """Seconds that a step of `streams` streams, each of `frames` frames, takes now.

        What prepares the frames is included.
        """
        states = [self.example(self.asked()) for _ in range(streams)]
        told, whole = self.example_frames(frames), self.spec.prepares
        started = clock()
        self.decode([Work(state, told, final=whole) for state in states])
        took_s = clock() - started
        if not whole:
            self.decode([Work(state, self.spec.none(), final=True) for state in states])
        for state in states:
            self.close(state)
        return took_s
