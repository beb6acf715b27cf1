"""A family as it is served: pauses are made where it has none, and its runaways are seen.

A text is divided at its pauses into parts. Each part that holds anything to say is a request of
its own to the model, with the same voice and seed: a sequence in the cache, begun where the one
before it ended. Between them stand silent frames, which no step computes; see `parts`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

from ttscommon.wire.fields import FLAG, NOTHING, SILENT, Array, Arrays, Derived, Field
from ttscommon.wire.lookups import PhonesFound
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Pause, Phones, Piece, Text
from ttscommon.wire.tensors import FloatRows
from ttsfamilies.base.talker.base import Family, ModelSpec, Prepared
from ttsfamilies.base.talker.guard import FLAG as REDRAW_FLAG
from ttsfamilies.base.talker.guard import REDRAW, RunawaySigns, Watch
from ttsfamilies.base.talker.lmstream import letters
from ttsfamilies.base.talker.streams import Runner, TalkerStream


class Said(NamedTuple):
    """A unit of the text of one part; parts are told apart by their `prepared`.

    letters: of the part's text, as far as it was read for it.
    """

    part: Prepared
    unit: Any
    letters: float = 0.0


class Silence(NamedTuple):
    """So many frames that say nothing. It ends the part before it."""

    frames: int


Unit: TypeAlias = Said | Silence
# A token is most often a word or a part of one.
_LETTERS_A_ROW: Final = 6.0


class ServedFamily(Family):
    """Computes as the family in it does. guards: whether its runaways are drawn again, or left."""

    pauses = True

    def __init__(self, family: Family, *, guards: bool = True) -> None:
        spec, self._family = family.spec, family
        replay: dict[str, Field] = {}
        if not family.pauses:
            if spec.renders or spec.says:
                raise ValueError("this family makes silence itself")
            self.silences, replay[SILENT] = True, FLAG
        if guards and family.signs is not None and not spec.says:
            self.watch = Watch(family.signs, spec.frame_rate_hz)
            self.watched_code = _code(spec, family.signs)
            replay[REDRAW] = REDRAW_FLAG
        self.spec = replace(spec, replay={**spec.replay, **replay})
        self.depth, self.exact = family.depth, family.exact
        self.cache_itemsize = family.cache_itemsize
        self.measured_round_s: Mapping[int, float] = family.measured_round_s
        self.adapters, self.signs = family.adapters, family.signs
        self.hears, self.examples = family.hears, family.examples

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> Prepared:
        return ServedPrepared(self._family, request, derived)

    def open(self, prepared: Prepared) -> TalkerStream:
        """Of a part; see Said."""
        return self._family.open(prepared)

    def free_bytes(self) -> int | None:
        return self._family.free_bytes()

    def fit(self, positions: int) -> None:
        self._family.fit(positions)

    def runner(self, rows: int, blocks: int, depth: int) -> Runner:
        return self._family.runner(rows, blocks, depth)

    @property
    def revision(self) -> str:
        return self._family.revision

    def derive(self, recording: bytes) -> Arrays:
        with self._family.aside():
            return self._family.derive(recording)

    def hear(self, recording: bytes) -> Arrays:
        with self._family.aside():
            return self._family.hear(recording)

    def phones(self, text: str, language: str) -> PhonesFound | None:
        return self._family.phones(text, language)

    def style(self, voice: str) -> Array | None:
        return self._family.style(voice)

    def example_reference(self) -> Arrays | None:
        with self._family.aside():
            return self._family.example_reference()


class ServedPrepared(Prepared):
    """A request divided at its pauses; the first part is prepared, and so checked, at once."""

    def __init__(self, family: Family, request: SpeechRequest, derived: Derived = NOTHING) -> None:
        self.request = request
        self._family, self._derived = family, derived
        self._part: Prepared = family.prepare(request, derived)
        self._fresh = True  # nothing of the part has been read
        self._held: list[Piece] = []  # of a part that holds nothing to say yet
        self._before: list[Silence] = []  # pauses before anything was said
        self._paused = self._spoken = False
        self._sequences, self._letters = 0, 0.0  # of the part

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[Unit]:
        """Units of the parts, and silence between them; see Prepared.

        A pause at the beginning is held back until there is anything to say: a text of pauses alone
        is refused and has no sound.
        """
        if self._family.pauses:
            self._held += pieces
            yield from self._units(ends=final)
            return
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
                yield from self._units(ends=True)  # the family says what is wrong
            if ends:
                self._held = []
            return
        if self._fresh:
            self._begin()
            yield from self._before
            self._before = []
        yield from self._units(ends=ends)

    @property
    def _paused_at_end(self) -> bool:
        return bool(self._held) and isinstance(self._held[-1], Pause)

    def _begin(self) -> None:
        """The present part has something to say: what it begins with is its text."""
        if self._paused:
            self._held = _without_space(self._held)
        if self._spoken:
            self._part = self._family.prepare(self.request, self._derived)
        self._letters = 0.0
        self._fresh, self._spoken, self._sequences = False, True, 0

    def _units(self, *, ends: bool) -> Iterator[Unit]:
        pieces, self._held, part = self._held, [], self._part
        self._fresh = self._fresh or ends
        self._letters += sum(map(_letters, pieces))
        for unit in part.read(pieces, final=ends):
            if self._sequences and self._family.spec.delay_frames:
                # Rows of two sequences would be taken for those of one.
                yield Silence(1)
            self._sequences += 1
            yield Said(self._sequence(part), unit, self._letters)

    def _sequence(self, part: Prepared) -> Prepared:
        """What a unit is a part of: of delayed frames each sequence is one."""
        if self._sequences > 1 and self._family.spec.delay_frames:
            return copy(part)
        return part

    def _silence(self, pause: Pause) -> Iterator[Silence]:
        """As many frames as come nearest, and one at the least. Delayed frames of what was said
        are silent for a part of them.
        """
        spec = self._family.spec
        frames = round(pause.seconds * spec.frame_rate_hz)
        self._paused = True
        if self._spoken:
            yield Silence(max(1, frames - spec.delay_frames))
        else:
            self._before.append(Silence(max(1, frames)))


def _code(spec: ModelSpec, signs: RunawaySigns) -> str:
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
