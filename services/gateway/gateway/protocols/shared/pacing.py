"""Long work on the event loop, cut into slices."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Final

# As much as one client may keep the others waiting.
BUDGET_S: Final = 0.001
SLICE_BYTES: Final = 2 << 10


def slices(data: bytes) -> Iterator[bytes]:
    """`data` in parts that a parser in Python takes well under a millisecond for."""
    return (data[start : start + SLICE_BYTES] for start in range(0, len(data), SLICE_BYTES))


class LoopBudget:
    """`breathe` after each slice: the loop goes round when the budget is used up."""

    def __init__(self) -> None:
        self._until_s = time.perf_counter() + BUDGET_S

    async def breathe(self) -> None:
        if time.perf_counter() > self._until_s:
            await asyncio.sleep(0)
            self._until_s = time.perf_counter() + BUDGET_S
