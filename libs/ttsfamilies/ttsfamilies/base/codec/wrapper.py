"""A codec that stands in front of another one and shows it something else."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np

from ttscommon.engine.delay_pattern import DelayPattern
from ttscommon.engine.inflight import LaunchPath
from ttscommon.wire.fields import Array, Arrays, Field, cut
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec, CodecSpec, CodecState, Decoded, StateUse, Work


class WrapperTicket(NamedTuple):
    """The codec's own ticket, None where it was shown nothing, and a part for each work."""

    inner: Any
    parts: Sequence[Any]


class CodecWrapper(Codec):
    """Computes as the codec in it does. A stream has the codec's state as `inner`.

    A subclass says what of a work the codec is shown, and what is then given of it.
    """

    def __init__(self, codec: Codec, spec: CodecSpec) -> None:
        self._codec = codec
        self.spec = spec
        self.depth, self.measured_step_s = codec.depth, codec.measured_step_s

    def conditions(self, request: SpeechRequest, reference: Arrays | None = None) -> Arrays | None:
        return self._codec.conditions(request, reference)

    @property
    def room(self) -> tuple[int, int]:
        return self._codec.room

    @property
    def state_use(self) -> StateUse:
        return self._codec.state_use

    def example_frames(self, count: int) -> Arrays:
        return self._codec.example_frames(count)

    def warm_up(self, shapes: Sequence[tuple[int, int]]) -> None:
        self._codec.warm_up(shapes)
        self.measured_step_s = self._codec.measured_step_s

    @abstractmethod
    def shown(self, work: Work) -> Work | None:
        """What of a work the codec is to decode. Changes nothing, a second time."""

    @abstractmethod
    def part(self, work: Work, inner: int | None, shown: Work | None) -> Any:
        """What the work gives. inner: the index of the codec's result, None without one."""

    @abstractmethod
    def advance(self, work: Work, part: Any) -> None:
        """The work was launched."""

    @abstractmethod
    def given(self, part: Any, decoded: Decoded) -> Decoded:
        """A work's samples, of what the codec gave; of nothing where it was shown nothing."""

    def tell(self, state: Any, conditions: Arrays) -> None:
        self._codec.tell(state.inner, conditions)

    def restore(self, state: Any, mark: bytes) -> None:
        self._codec.restore(state.inner, mark)

    def close(self, state: Any) -> None:
        self._codec.close(state.inner)

    def launch(self, batch: Sequence[Work]) -> WrapperTicket:
        due: list[Work] = []
        parts: list[Any] = []
        for work in batch:
            shown = self.shown(work)
            parts.append(self.part(work, None if shown is None else len(due), shown))
            due += [] if shown is None else [shown]
        ticket = self._codec.launch(due) if due else None
        for work, part in zip(batch, parts, strict=True):
            self.advance(work, part)
        return WrapperTicket(ticket, parts)

    def collect(self, ticket: WrapperTicket) -> list[Decoded]:
        results = [] if ticket.inner is None else self._codec.collect(ticket.inner)
        nothing = Decoded(np.zeros(0, np.float32))
        return [
            self.given(part, nothing if part.inner is None else results[part.inner])
            for part in ticket.parts
        ]

    def paths(self, ticket: WrapperTicket) -> Sequence[LaunchPath]:
        return () if ticket.inner is None else self._codec.paths(ticket.inner)


# Rows of delayed codes in front of a codec of frames.
#
# A stream carries the last rows, whose frames lack codes, and no more. What it owes of the frames
# before those that it knows, which a successor has no rows for, is zeros, as of any codec.


CODES: Final = "codes"


@dataclass(eq=False)
class _Stream:
    """begun: the row that it was opened at. row: the next. recent: [rows, codebooks] before it,
    the codes of frames that are not complete.
    """

    inner: CodecState
    begun: int
    row: int
    recent: Array


class _Part(NamedTuple):
    """What one work gives: so many zeros, and then the codec's result `inner`."""

    zeros: int
    inner: int | None


class Delayed(CodecWrapper):
    """A codec that is shown frames, of rows of `codes`. Ids that are no codes count as 0."""

    def __init__(self, codec: Codec, delay_pattern: DelayPattern, ids: int) -> None:
        """ids: of a row, the codec's codes and those that are none."""
        (field,) = codec.spec.frame.values()
        if field.shape != (len(delay_pattern.delays),):
            raise ValueError("every codebook has a delay")
        frame = {CODES: Field(field.shape, field.dtype, ids)}
        super().__init__(codec, replace(codec.spec, frame=frame, delay_frames=delay_pattern.most))
        self._delay_pattern, self._limit = delay_pattern, field.limit

    def open(self, request: SpeechRequest, frame: int = 0) -> _Stream:
        none = self.spec.none()[CODES]
        return _Stream(self._codec.open(request, frame), frame, frame, none)

    def _whole(self, work: Work) -> Array:
        return np.concatenate([work.state.recent, work.frames[CODES]])

    def shown(self, work: Work) -> Work | None:
        """What the work completes; None where not even that of a successor's first row is."""
        codes = self._delay_pattern.frames(self._whole(work))
        known = work.state.row + len(work) - self._delay_pattern.most >= work.state.begun
        if not (len(codes) or (work.final and known)):
            return None
        if self._limit is not None:
            codes = np.where((codes >= 0) & (codes < self._limit), codes, 0).astype(codes.dtype)
        (name,) = self._codec.spec.frame
        return Work(work.state.inner, {name: codes}, work.final)

    def part(self, work: Work, inner: int | None, shown: Work | None) -> _Part:
        return _Part(self._owed(work, shown), inner)

    def _owed(self, work: Work, given: Work | None) -> int:
        """Samples of frames that the stream knows nothing of, which are due now."""
        start, end = work.state.row, work.state.row + len(work)
        due = self.spec.samples(end, final=work.final) - self.spec.samples(start, final=False)
        if given is None:
            return due
        samples, last = self._codec.spec.samples, end - self._delay_pattern.most
        made = samples(last, final=work.final) - samples(last - len(given), final=False)
        return due - made

    def advance(self, work: Work, part: _Part) -> None:
        stream: _Stream = work.state
        whole = self._whole(work)
        kept = cut({CODES: whole}, max(0, len(whole) - self._delay_pattern.most), len(whole))
        stream.recent, stream.row = kept[CODES], stream.row + len(work)

    def given(self, part: _Part, decoded: Decoded) -> Decoded:
        if not part.zeros:
            return decoded
        made = np.concatenate([np.zeros(part.zeros, np.float32), decoded.samples])
        return Decoded(made, decoded.mark, decoded.prepared)
