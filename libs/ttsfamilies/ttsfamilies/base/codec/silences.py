"""Logged silence in front of any codec: zeros, and behind them the codec begins anew.

What follows a silence is decoded as if nothing had been before it, or only the end of the request's
reference. So wherever a vocoder began, the frames behind a silence have the same samples, and the
context that a codec needs never reaches across one. What a codec holds back comes before a silence
begins; what it is to hold back by `CodecSpec.lag_samples` is held back here instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from ttscommon.engine.inflight import LaunchPath
from ttscommon.wire.fields import Arrays, concatenate, cut, rows
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec, CodecState, Decoded, Samples, StateUse, Work

# Of a reference, decoded again behind each silence: two seconds at 12.5 Hz, which is what the
# official package of Qwen3-TTS gives its windows. All of it would take longer than a pause.
_LEAD_FRAMES: Final = 25


@dataclass(eq=False)
class _Stream:
    """One stream, and the codec's state for what was said since the last silence.

    frame: the next one. conditions: what each state is told. lead: frames of a reference to begin
    anew with; due_lead: those to decode before the next frame. fed: the state has decoded
    something. over: a silence followed. skip: samples that the state gives next and that are not
    heard. held: samples that were made and are not due yet, as of the last launch collected.
    """

    request: SpeechRequest
    inner: CodecState
    frame: int
    held: Samples
    conditions: Arrays | None = None
    lead: Arrays | None = None
    due_lead: Arrays | None = None
    fed: bool = False
    over: bool = False
    skip: int = 0


class _Part(NamedTuple):
    """What one work gives: the codec's result `inner` behind `skip`, then so many zeros.

    due: samples that come out now; the others are held.
    """

    stream: _Stream
    inner: int | None
    skip: int
    zeros: int
    due: int


class SilenceTicket(NamedTuple):
    """The codec's own ticket, None where it was shown nothing, and a part for each work."""

    inner: Any
    parts: Sequence[_Part]


class Silences(Codec):
    """A codec that is not shown any silence."""

    silences = True

    def __init__(self, codec: Codec) -> None:
        self._codec, self.spec = codec, codec.spec
        self.depth, self.measured_step_s = codec.depth, codec.measured_step_s

    def open(self, request: SpeechRequest, frame: int = 0) -> _Stream:
        return _Stream(request, self._codec.open(request, frame), frame, np.zeros(0, np.float32))

    @property
    def room(self) -> tuple[int, int]:
        return self._codec.room

    @property
    def state_use(self) -> StateUse:
        return self._codec.state_use

    @property
    def conditioned(self) -> bool:
        return self._codec.conditioned

    def prefix(self, request: SpeechRequest, reference: Arrays | None = None) -> Arrays | None:
        return self._codec.prefix(request, reference)

    def conditions(self, request: SpeechRequest, reference: Arrays | None = None) -> Arrays | None:
        return self._codec.conditions(request, reference)

    def tell(self, state: _Stream, conditions: Arrays) -> None:
        state.conditions = conditions
        self._codec.tell(state.inner, conditions)

    def go_on_from(self, state: _Stream, prefix: Arrays) -> None:
        count = rows(prefix)
        state.lead = cut(prefix, max(0, count - _LEAD_FRAMES), count)

    def restore(self, state: _Stream, mark: bytes) -> None:
        if not state.over:
            self._codec.restore(state.inner, mark)

    def close(self, state: _Stream) -> None:
        if state.inner is not None:
            self._codec.close(state.inner)

    def example_frames(self, count: int) -> Arrays:
        return self._codec.example_frames(count)

    def warm_up(self, shapes: Sequence[tuple[int, int]]) -> None:
        self._codec.warm_up(shapes)
        self.measured_step_s = self._codec.measured_step_s

    def launch(self, batch: Sequence[Work]) -> SilenceTicket:
        due: list[Work] = []
        parts = []
        for work in batch:
            shown = self._shown(work)
            parts.append(self._part(work, None if shown is None else len(due)))
            due += [] if shown is None else [shown]
        ticket = self._codec.launch(due) if due else None
        for work, part in zip(batch, parts, strict=True):
            self._advance(work, part)
        return SilenceTicket(ticket, parts)

    def collect(self, ticket: SilenceTicket) -> list[Decoded]:
        results = [] if ticket.inner is None else self._codec.collect(ticket.inner)
        nothing = Decoded(np.zeros(0, np.float32))
        return [
            self._given(part, nothing if part.inner is None else results[part.inner])
            for part in ticket.parts
        ]

    def paths(self, ticket: SilenceTicket) -> Sequence[LaunchPath]:
        return () if ticket.inner is None else self._codec.paths(ticket.inner)

    def _begin(self, work: Work) -> None:
        """Have a new state for frames that follow a silence; a second time this does nothing.

        The old one may be written by a launch in flight. Launches are computed in order, so that
        who is given its place writes it later.
        """
        stream: _Stream = work.state
        begins = len(work) or work.segment is not None
        if work.silent or not begins or not stream.over:
            return
        self.close(stream)
        stream.inner = None
        first = stream.frame - (0 if stream.lead is None else rows(stream.lead))
        stream.inner = self._codec.open(stream.request, first)
        if stream.conditions is not None:
            self._codec.tell(stream.inner, stream.conditions)
        stream.due_lead, stream.fed, stream.over = stream.lead, False, False
        heard = stream.frame * self.spec.samples_per_frame
        stream.skip = heard - self.spec.samples(first, final=False)

    def _shown(self, work: Work) -> Work | None:
        """What of a work the codec is to decode."""
        self._begin(work)
        stream: _Stream = work.state
        if stream.over:
            return None
        if work.silent:
            flushes = stream.fed and self.spec.lag_samples
            return Work(stream.inner, self.spec.none(), final=True) if flushes else None
        frames = work.frames
        if stream.due_lead is not None:
            frames = concatenate([stream.due_lead, frames])
        return Work(stream.inner, frames, work.final, segment=work.segment)

    def _part(self, work: Work, inner: int | None) -> _Part:
        stream: _Stream = work.state
        per_frame, samples = self.spec.samples_per_frame, self.spec.samples
        start, end = samples(stream.frame, final=False), stream.frame + len(work)
        due = samples(end, final=work.final) - start
        if work.silent:
            # What a state gives at its end; it owes silence for what it knows nothing of, and for
            # what delayed frames lack.
            made = 0 if inner is None else samples(stream.frame, final=True) - start
            owed = stream.frame * per_frame - start - max(made, stream.skip)
            zeros = len(work) * per_frame + (0 if stream.over else owed)
            return _Part(stream, inner, min(stream.skip, made), zeros, due)
        lead = 0 if stream.due_lead is None else rows(stream.due_lead)
        made = samples(end, final=work.final) - samples(stream.frame - lead, final=False)
        return _Part(stream, inner, min(stream.skip, made), 0, due)

    def _advance(self, work: Work, part: _Part) -> None:
        """The work was launched."""
        stream = part.stream
        stream.frame += len(work)
        stream.skip -= part.skip
        if len(work):
            stream.due_lead = None
            stream.over, stream.fed = work.silent, stream.fed or not work.silent
        elif work.segment is not None:
            stream.over = False

    def _given(self, part: _Part, decoded: Decoded) -> Decoded:
        """Samples that were held, the codec's, and silence, as far as they are due."""
        stream, made = part.stream, decoded.samples[part.skip :]
        if len(stream.held) or part.zeros:
            made = np.concatenate([stream.held, made, np.zeros(part.zeros, np.float32)])
        stream.held = made[part.due :]
        return Decoded(made[: part.due], b"" if part.zeros else decoded.mark, decoded.prepared)
