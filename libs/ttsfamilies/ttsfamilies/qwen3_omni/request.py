"""A request in the terms of a checkpoint: rows of the thinker, given or looked up. No torch.

To the books of Qwen3-TTS a text is ids; here an id is a place among the stream's own rows. Of rows
that are said, a step whose row is not here yet waits for it: the pad's row means that the text is
over, and what was said cannot be taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ttscommon.wire.errors import BadRequest, NothingToSay, TextTooLong
from ttscommon.wire.fields import Array, Arrays
from ttscommon.wire.pieces import Piece
from ttscommon.wire.tensors import FloatRows, RowKind, widened
from ttsfamilies.base.talker.base import Prepared
from ttsfamilies.base.talker.streams import Plan, SlotWriter
from ttsfamilies.qwen3_omni.config import EMBEDDING, NO_ROW, SPECIAL_ROWS, STATE
from ttsfamilies.qwen3_tts.config import TalkerConfig
from ttsfamilies.qwen3_tts.prompt import NO_TEXT, ROLE_TOKENS, PromptRequest, prompt_positions
from ttsfamilies.qwen3_tts.request import Qwen3Prepared
from ttsfamilies.qwen3_tts.stream import Qwen3Stream

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
        self._fed, self._look, self._width = told, look, width
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
        for tokens in self._fed.read(text, final=final):
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


# Rows in the slot: those of the next steps, told or in flight.
RING: Final = 8


class OmniStream(Qwen3Stream):
    """See TalkerStream. opening: the special rows and those of the role that opens the turn."""

    def __init__(
        self, prepared: OmniPrepared, config: TalkerConfig, opening: Sequence[Array]
    ) -> None:
        super().__init__(prepared, config, pads=False)
        self._rows: list[Array] = list(opening)
        self._kinds: list[int] = [EMBEDDING] * len(opening)
        self._role = tuple(range(SPECIAL_ROWS, SPECIAL_ROWS + ROLE_TOKENS))
        self._context: list[int] = []
        self._places: list[Array] = []  # of the context, [3] each
        self._behind = 0  # the first place behind the context

    def feed(self, units: Sequence[Given], *, final: bool) -> None:  # type: ignore[override]
        for unit in units:
            self._take(unit)
            self._complete = self._complete or unit.complete
        self._complete = self._complete or final
        self._lay_out()

    def _take(self, unit: Given) -> None:
        first = len(self._rows)
        self._rows += unit.rows
        self._kinds += [STATE if unit.kind == "media" else EMBEDDING] * len(unit.rows)
        ids = range(first, len(self._rows))
        if unit.kind == "said":
            self._text.extend(ids)
            return
        self._context.extend(ids)
        places = unit.places
        if not len(places):
            places = np.repeat(self._behind + np.arange(len(unit.rows)), 3).reshape(-1, 3)
        self._places += list(places)
        self._behind = max(self._behind, 1 + int(places.max(initial=-1)))

    def _asked(self) -> PromptRequest:
        context = () if self._prompt is not None else tuple(self._context)
        return replace(super()._asked(), instruction=context)

    def _keys(self, positions: int) -> tuple[bytes, ...]:
        """None: what a request begins with is its own caller's."""
        return ()

    def inputs(self, plan: Plan, branch: int = 0) -> Arrays:
        told = dict(super().inputs(plan, branch))
        ids = told.pop("text").tolist()
        width = len(self._rows[0])
        rows = np.zeros((len(ids), width), np.float32)
        for at, number in enumerate(ids):
            if number != NO_TEXT:
                rows[at] = widened(self._rows[number])
        kinds = [NO_ROW if i == NO_TEXT else self._kinds[i] for i in ids]
        return {
            **told,
            "row": rows,
            "kind": np.array(kinds, np.int64),
            "places": self._placed(plan.start, plan.end),
        }

    def _placed(self, start: int, end: int) -> Array:
        """Where positions stand in time, height and width, [positions, 3]."""
        behind = np.arange(max(start, len(self._places)), max(end, len(self._places)))
        known = np.array(self._places[start:end], np.int64).reshape(-1, 3)
        return np.concatenate([known, np.repeat(behind + self._shift, 3).reshape(-1, 3)])

    @property
    def _shift(self) -> int:
        """From a position behind the context to its place."""
        return self._behind - len(self._places)

    def _stage_all(self, write: SlotWriter) -> None:
        super()._stage_all(write)
        write("shift", self._shift)

    def _stage_steps(self, write: SlotWriter) -> None:
        """Write rows of the next steps that the slot does not hold yet; the ring is as long as
        steps may be ahead of what is known of them.
        """
        last = min(len(self._steps), self._fed + RING)
        for index in range(max(self._staged, self._fed), last):
            write("row", widened(self._rows[self._steps[index]])[None], index % RING)
        self._staged = max(self._staged, last)
