"""Suspicion, step by step, of the present draw of an utterance."""

from __future__ import annotations

from typing import Final

from ttsfamilies.base.talker.signs import Seen, Sign, Watch

STEP: Final = 4
"""Frames between two looks."""


class Outlook:
    """What a guard knows of a stream's course: the present draw of the utterance being spoken.

    first: its first frame. suspect: the frame that suspicion began behind.
    """

    def __init__(self, begun: int, redraw: int = 0, first: int | None = None) -> None:
        self.begun, self.redraw = begun, redraw
        self.first = begun if first is None else first
        self.codes: list[int] = []
        self.checked = self.first
        self.suspect: int | None = None
        self._clear = 0  # checks since there was a sign

    def look(self, watch: Watch, seen: Seen) -> Sign | None:
        """Look at the frames `seen`, one step more than before; the sign that is certain."""
        self.checked += STEP
        if watch.find(seen, early=True) is None:
            self._clear += 1
            if self._clear * STEP >= watch.rate_hz:
                self.suspect = None
            return None
        self._clear = 0
        if self.suspect is None:
            self.suspect = self.checked
        return watch.find(seen)
