"""Rows of staggered codes in front of a codec of frames.

A stream carries the last rows, whose frames lack codes, and no more. What it owes of the frames
before those that it knows, which a successor has no rows for, is zeros, as of any codec.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from ttscommon.engine.stagger import Stagger
from ttscommon.wire.fields import Array, Field, cut
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec, CodecState, Decoded, Work
from ttsfamilies.base.codec.wrapper import CodecWrapper

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


class Staggered(CodecWrapper):
    """A codec that is shown frames, of rows of `codes`. Ids that are no codes count as 0."""

    def __init__(self, codec: Codec, stagger: Stagger, ids: int) -> None:
        """ids: of a row, the codec's codes and those that are none."""
        (field,) = codec.spec.frame.values()
        if field.shape != (len(stagger.delays),):
            raise ValueError("every codebook has a delay")
        frame = {CODES: Field(field.shape, field.dtype, ids)}
        super().__init__(codec, replace(codec.spec, frame=frame, delay_frames=stagger.most))
        self._stagger, self._limit = stagger, field.limit

    def open(self, request: SpeechRequest, frame: int = 0) -> _Stream:
        none = self.spec.none()[CODES]
        return _Stream(self._codec.open(request, frame), frame, frame, none)

    def _whole(self, work: Work) -> Array:
        return np.concatenate([work.state.recent, work.frames[CODES]])

    def shown(self, work: Work) -> Work | None:
        """What the work completes; None where not even that of a successor's first row is."""
        codes = self._stagger.frames(self._whole(work))
        known = work.state.row + len(work) - self._stagger.most >= work.state.begun
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
        samples, last = self._codec.spec.samples, end - self._stagger.most
        made = samples(last, final=work.final) - samples(last - len(given), final=False)
        return due - made

    def advance(self, work: Work, part: _Part) -> None:
        del part
        stream: _Stream = work.state
        whole = self._whole(work)
        kept = cut({CODES: whole}, max(0, len(whole) - self._stagger.most), len(whole))
        stream.recent, stream.row = kept[CODES], stream.row + len(work)

    def given(self, part: _Part, decoded: Decoded) -> Decoded:
        if not part.zeros:
            return decoded
        made = np.concatenate([np.zeros(part.zeros, np.float32), decoded.samples])
        return Decoded(made, decoded.mark, decoded.prepared)
