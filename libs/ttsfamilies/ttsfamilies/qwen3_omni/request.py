"""A request in the terms of a checkpoint: rows of the thinker, given or looked up. No torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ttscommon.wire.errors import BadRequest, NothingToSay, TextTooLong
from ttscommon.wire.fields import Array
from ttscommon.wire.pieces import Piece
from ttscommon.wire.rows import FloatRows, RowKind
from ttsfamilies.base.talker.base import Prepared
from ttsfamilies.qwen3_tts.prompt import prompt_positions
from ttsfamilies.qwen3_tts.request import Qwen3Prepared

# Of a text's ids: a row [width] float32 each.
Look = Callable[[Sequence[int]], Sequence[Array]]


@dataclass(frozen=True, eq=False)
class Given:
    """Rows of one kind, each as it is stored; complete: none follow.

    places: of rows of a prompt, [rows, 3]; empty where they stand one behind the other.
    """

    kind: RowKind
    rows: Sequence[Array]
    places: Array
    complete: bool = False


_NO_PLACES = np.zeros((0, 3), np.int64)


class OmniPrepared(Prepared):
    """A request that the checkpoint can speak. See Qwen3Prepared, which reads what is text."""

    speaker: Array | None = None
    adapter: int | None = None

    def __init__(self, told: Qwen3Prepared, look: Look, width: int, positions: int) -> None:
        """width: of a row. positions: of one request, at the most."""
        self.request, self.asked, self.drawing = told.request, told.asked, told.drawing
        self._told, self._look, self._width = told, look, width
        self._positions = positions
        self._instructed = False
        self._context = self._said = 0
        self._typed = False

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[Given]:
        """Rows as they come, and of text as soon as no later text can change its tokens.

        Raises BadRequest for rows that do not fit, TextTooLong, NothingToSay.
        """
        if not self._instructed:
            self._instructed = True
            yield from self._instruction()
        rows = [piece for piece in pieces if isinstance(piece, FloatRows)]
        for piece in rows:
            yield self._checked(piece)
        text = [piece for piece in pieces if not isinstance(piece, FloatRows)]
        if self._rowed and not self._typed:
            yield from self._end_of_rows(final)
            return
        for tokens in self._told.read(text, final=final):
            self._typed = self._typed or bool(tokens.ids)
            yield Given("said", self._look(tokens.ids), _NO_PLACES, tokens.complete)

    @property
    def _rowed(self) -> bool:
        return self._context + self._said > 0

    def _instruction(self) -> Iterator[Given]:
        ids = self.asked.instruction
        if ids:
            yield Given("context", self._look(ids), _NO_PLACES)

    def _checked(self, piece: FloatRows) -> Given:
        if piece.shape[1] != self._width:
            raise BadRequest(
                f"rows are {piece.shape[1]} wide; this model's are {self._width}", param="rows"
            )
        if not piece.finite:
            raise BadRequest("the rows hold values that are no finite numbers", param="rows")
        if self._typed:
            raise BadRequest("a request is text or rows, not both", param="rows")
        if piece.kind == "said":
            self._said += len(piece)
        elif self._said:
            raise BadRequest("context comes before what is said", param="rows")
        else:
            self._context += len(piece)
        self._check_room()
        places = np.array(piece.places, np.int64).reshape(-1, 3)
        return Given(piece.kind, list(piece.stored), places)

    def _check_room(self) -> None:
        """Of rows that are said each has a frame at the least."""
        needed = prompt_positions(self.asked, 0) + self._context + self.drawing.frames
        if needed > self._positions or self._said > self.drawing.frames:
            raise TextTooLong(
                f"{self._context} rows of context and {self._said} that are said may need {needed}"
                f" positions and {self._said} frames, of {self._positions} and"
                f" {self.drawing.frames}: send less, or ask for fewer max_new_tokens",
                param="rows",
            )

    def _end_of_rows(self, final: bool) -> Iterator[Given]:
        if not final:
            return
        if not self._said:
            raise NothingToSay("the rows hold nothing that is said", param="rows")
        yield Given("said", (), _NO_PLACES, complete=True)
