"""What every driver prints: one line of JSON that says what its client received."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any

SENTENCES = (
    "The tide is coming in.",
    "Can you hear the bells across the water?",
    "They ring twice, and then they stop.",
)
TEXT = " ".join(SENTENCES)


@dataclass
class Heard:
    """`words`: as the client timed them, in seconds from the first sample."""

    seconds: float = 0.0
    first_s: float | None = None
    words: list[tuple[str, float]] = field(default_factory=list)
    error: str | None = None
    began_s: float = field(default_factory=time.monotonic)

    def audio(self, seconds: float) -> None:
        if self.first_s is None:
            self.first_s = time.monotonic() - self.began_s
        self.seconds += seconds


Driver = Callable[[str], Awaitable[Heard]]


def main(drivers: dict[str, Driver]) -> None:
    """`python FILE NAME URL`."""
    name, url = sys.argv[1:3]
    heard = asyncio.run(_within(drivers[name](url)))
    print(json.dumps(asdict(heard)))


async def _within(driving: Awaitable[Heard]) -> Any:
    async with asyncio.timeout(60):
        return await driving
