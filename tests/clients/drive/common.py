"""What every driver prints: one line of JSON that says what its client received."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field

KEY = os.environ.get("CLIENT_KEY", "no-key")
SENTENCES = (
    "The tide is coming in.",
    "Can you hear the bells across the water?",
    "They ring twice, and then they stop.",
)
TEXT = " ".join(SENTENCES)
LONG = " ".join([TEXT] * 12)
CUT_AFTER_S = 0.2
LIMIT_S = float(os.environ.get("CLIENT_LIMIT_S", "60"))


class Enough(Exception):
    """The listener interrupts: he has heard what he wanted."""


@dataclass
class Heard:
    """What a client received.

    words: as the client timed them, in seconds from the first sample. until_s: the listener
    interrupts there. cut_s: heard before he did. stray_s: heard of it afterwards. patient: the
    client may try again. spelled: characters that were timed, and timed_s where the last of them
    ends. late_s: how long after the first sound the first word is due.
    """

    seconds: float = 0.0
    first_s: float | None = None
    words: list[tuple[str, float]] = field(default_factory=list)
    error: str | None = None
    cut_s: float = 0.0
    stray_s: float = 0.0
    until_s: float | None = None
    patient: bool = False
    spelled: str = ""
    timed_s: float = 0.0
    late_s: float = 0.0
    began_s: float = field(default_factory=time.monotonic)

    def audio(self, seconds: float) -> None:
        """Raises Enough."""
        if self.first_s is None:
            self.first_s = time.monotonic() - self.began_s
        self.seconds += seconds
        if self.until_s is not None and self.seconds >= self.until_s:
            raise Enough


Driver = Callable[[str, Heard, str], Awaitable[None]]
Interruption = Callable[[str, Heard], Awaitable[None]]


async def speak(driver: Driver, url: str) -> Heard:
    """One text; a failure by the name of its class."""
    heard = Heard()
    try:
        await driver(url, heard, TEXT)
    except Exception as error:  # noqa: BLE001 -- whatever a client raises
        heard.error = type(error).__name__
    return heard


async def interrupt(driver: Driver, url: str) -> Heard:
    """Leave a long text in its middle, then have a short one spoken."""
    cut, heard = Heard(until_s=CUT_AFTER_S), Heard()
    try:
        await driver(url, cut, LONG)
    except Enough:
        heard.cut_s = cut.seconds
    await driver(url, heard, SENTENCES[0])
    return heard


async def twice(driver: Driver, url: str) -> Heard:
    """Two texts at once, where a key may have one stream: one of them has to wait."""
    both = Heard(patient=True), Heard(patient=True)
    await asyncio.gather(*(driver(url, heard, TEXT) for heard in both))
    return Heard(seconds=sum(heard.seconds for heard in both))


def main(drivers: Mapping[str, Driver], own: Mapping[str, Interruption] | None = None) -> None:
    """`python FILE NAME URL MODE`; `own`: how clients interrupt that have a way of their own."""
    name, url, mode = sys.argv[1:4]
    modes = {"speak": speak, "interrupt": interrupt, "twice": twice}
    if mode == "interrupt" and own and name in own:
        heard = asyncio.run(_within(_own(own[name], url)))
    else:
        heard = asyncio.run(_within(modes[mode](drivers[name], url)))
    print(json.dumps(asdict(heard)))


async def _own(interruption: Interruption, url: str) -> Heard:
    heard = Heard()
    await interruption(url, heard)
    return heard


async def _within(driving: Awaitable[Heard]) -> Heard:
    async with asyncio.timeout(LIMIT_S):
        return await driving
