"""A guard against runaways, for any family: see `signs` and `guardedstream`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Phones, Piece, Text
from ttscommon.wire.rows import FloatRows
from ttsfamilies.base.talker.base import Family, ModelSpec, Prepared
from ttsfamilies.base.talker.guardedstream import FLAG, REDRAW, GuardedStream
from ttsfamilies.base.talker.signs import Signs, Watch, letters
from ttsfamilies.base.talker.wrapped import WrappedFamily

# A token is most often a word or a part of one.
_LETTERS_A_ROW: Final = 6.0


class Weighed(NamedTuple):
    """A unit of a text, and how many letters the text has as far as it was read for it."""

    unit: Any
    letters: float


class GuardedPrepared(Prepared):
    """A request that its family has checked, whose text is weighed while it is read."""

    def __init__(self, prepared: Prepared) -> None:
        self.request, self.prepared = prepared.request, prepared
        self._letters = 0.0

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[Weighed]:
        """See Prepared."""
        self._letters += sum(map(_letters, pieces))
        for unit in self.prepared.read(pieces, final=final):
            yield Weighed(unit, self._letters)


class Guarding(WrappedFamily):
    """A family whose runaways are drawn again, or left."""

    def __init__(self, family: Family) -> None:
        if family.signs is None or family.spec.says:
            raise ValueError("this family does not run away, or its text tells nothing of it")
        super().__init__(family, {REDRAW: FLAG})
        self.pauses = family.pauses
        self._watch = Watch(family.signs, family.spec.frame_rate_hz)
        self._code = _code(family.spec, family.signs)

    def prepare(
        self,
        request: SpeechRequest,
        reference: Arrays | None = None,
        turns: Sequence[Arrays | None] = (),
    ) -> GuardedPrepared:
        return GuardedPrepared(self._family.prepare(request, reference, turns))

    def open(self, prepared: Prepared) -> GuardedStream:
        assert isinstance(prepared, GuardedPrepared)
        request = prepared.request
        return GuardedStream(
            partial(self._family.open, prepared.prepared),
            self._watch if request.runaway_guard else None,
            code=self._code,
            drawn=request.sampling.temperature != 0.0,
            limited=request.sampling.max_new_tokens is not None,
            speed=request.speed,
        )


def _code(spec: ModelSpec, signs: Signs) -> str:
    """The field of a frame whose first column repeats in a loop; empty without one."""
    if signs.code or not signs.repeat_s:
        return signs.code
    rows = (name for name, f in spec.frame.items() if f.dtype[0] in "iu" and len(f.shape) == 1)
    return next(rows, "")


def _letters(piece: Piece) -> float:
    if isinstance(piece, FloatRows):
        return _LETTERS_A_ROW * len(piece) if piece.kind == "said" else 0.0
    if isinstance(piece, Text):
        return letters(piece.text)
    return letters(piece.read or piece.phones) if isinstance(piece, Phones) else 0.0
