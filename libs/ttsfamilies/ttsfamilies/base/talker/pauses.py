"""Pauses for models that have none: text up to a pause, logged silence, and a new prompt.

A text is divided at its pauses into parts. Each part that holds anything to say is a request of
its own to the model, with the same voice and seed: a sequence in the cache, begun where the one
before it ended. Between them stand silent frames, which no step computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import TypeAlias

from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Pause, Phones, Piece, Text
from ttscommon.wire.rows import FloatRows
from ttscommon.wire.silence import FLAG, SILENT
from ttsfamilies.base.talker.base import Family, Prepared
from ttsfamilies.base.talker.partedstream import PartedStream, Said, Silence
from ttsfamilies.base.talker.streams import TalkerStream
from ttsfamilies.base.talker.wrapped import WrappedFamily

Unit: TypeAlias = Said | Silence


class Pausing(WrappedFamily):
    """A family whose pauses are made for it. It must not render: silent frames hold zeros."""

    pauses = True

    def __init__(self, family: Family) -> None:
        if family.spec.renders or family.pauses or family.spec.says:
            raise ValueError("this family makes silence itself")
        super().__init__(family, {SILENT: FLAG})

    def prepare(
        self,
        request: SpeechRequest,
        reference: Arrays | None = None,
        turns: Sequence[Arrays | None] = (),
    ) -> Prepared:
        return PausingPrepared(self._family, request, reference, turns)

    def open(self, prepared: Prepared) -> TalkerStream:
        return PartedStream(self._family)


class PausingPrepared(Prepared):
    """A request divided at its pauses; the first part is prepared, and so checked, at once."""

    def __init__(
        self,
        family: Family,
        request: SpeechRequest,
        reference: Arrays | None = None,
        turns: Sequence[Arrays | None] = (),
    ) -> None:
        self.request = request
        self._family, self._reference, self._turns = family, reference, turns
        self._part: Prepared = family.prepare(request, reference, turns)
        self._fresh = True  # nothing of the part has been read
        self._held: list[Piece] = []  # of a part that holds nothing to say yet
        self._before: list[Silence] = []  # pauses before anything was said
        self._paused = self._spoken = False
        self._sequences = 0  # of the part

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[Unit]:
        """Units of the parts, and silence between them; see Prepared.

        A pause at the beginning is held back until there is anything to say: a text of pauses alone
        is refused and has no sound.
        """
        run: list[Piece] = []
        for piece in pieces:
            run.append(piece)
            if isinstance(piece, Pause):
                yield from self._read(run, ends=True)
                yield from self._silence(piece)
                run = []
        yield from self._read(run, ends=final)

    def _read(self, pieces: Sequence[Piece], *, ends: bool) -> Iterator[Unit]:
        """More of the present part, with the pause that ends it if one does."""
        self._held += pieces
        if self._fresh and not _speakable(self._held):
            if ends and not self._paused_at_end and not self._spoken:
                yield from self._told(ends=True)  # the family says what is wrong
            if ends:
                self._held = []
            return
        if self._fresh:
            self._begin()
            yield from self._before
            self._before = []
        yield from self._told(ends=ends)

    @property
    def _paused_at_end(self) -> bool:
        return bool(self._held) and isinstance(self._held[-1], Pause)

    def _begin(self) -> None:
        """The present part has something to say: what it begins with is its text."""
        if self._paused:
            self._held = _without_space(self._held)
        if self._spoken:
            self._part = self._family.prepare(self.request, self._reference, self._turns)
        self._fresh, self._spoken, self._sequences = False, True, 0

    def _told(self, *, ends: bool) -> Iterator[Unit]:
        pieces, self._held, part = self._held, [], self._part
        self._fresh = self._fresh or ends
        for unit in part.read(pieces, final=ends):
            if self._sequences and self._family.spec.delay_frames:
                # Rows of two sequences would be taken for those of one.
                yield Silence(1)
            self._sequences += 1
            yield Said(self._sequence(part), unit)

    def _sequence(self, part: Prepared) -> Prepared:
        """What a unit is a part of: of staggered frames each sequence is one."""
        if self._sequences > 1 and self._family.spec.delay_frames:
            return copy(part)
        return part

    def _silence(self, pause: Pause) -> Iterator[Silence]:
        """As many frames as come nearest, and one at the least. Staggered frames of what was said
        are silent for a part of them.
        """
        spec = self._family.spec
        frames = round(pause.seconds * spec.frame_rate_hz)
        self._paused = True
        if self._spoken:
            yield Silence(max(1, frames - spec.delay_frames))
        else:
            self._before.append(Silence(max(1, frames)))


def _speakable(pieces: Sequence[Piece]) -> bool:
    return any(
        isinstance(piece, FloatRows) or any(c.isalnum() for c in _text(piece)) for piece in pieces
    )


def _text(piece: Piece) -> str:
    return piece.text if isinstance(piece, Text | Phones) else " "


def _without_space(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces without white space in front."""
    for at, piece in enumerate(pieces):
        if isinstance(piece, Text) and (text := piece.text.lstrip()):
            return [Text(text), *pieces[at + 1 :]]
        if isinstance(piece, Phones):
            return list(pieces[at:])
    return list(pieces)
