"""One request of Qwen3-Omni on the host: its rows, its frames, and which step hears which row.

To the books of Qwen3-TTS a text is ids; here an id is a place among the stream's own rows. Of rows
that are said, a step whose row is not here yet waits for it: the pad's row means that the text is
over, and what was said cannot be taken back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from ttscommon.wire.fields import Array, Arrays
from ttscommon.wire.rows import widened
from ttsfamilies.base.talker.streams import Plan, SlotWriter
from ttsfamilies.qwen3_omni.config import SPECIAL_ROWS
from ttsfamilies.qwen3_omni.net import EMBEDDING, NO_ROW, STATE
from ttsfamilies.qwen3_omni.request import Given, OmniPrepared
from ttsfamilies.qwen3_tts.config import TalkerConfig
from ttsfamilies.qwen3_tts.prompt import NO_TEXT, ROLE_TOKENS, PromptRequest
from ttsfamilies.qwen3_tts.stream import Qwen3Stream

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
        del positions
        return ()

    def inputs(self, plan: Plan, lane: int = 0) -> Arrays:
        told = dict(super().inputs(plan, lane))
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
        last = min(len(self._steps), self._told + RING)
        for index in range(max(self._staged, self._told), last):
            write("row", widened(self._rows[self._steps[index]])[None], index % RING)
        self._staged = max(self._staged, last)
