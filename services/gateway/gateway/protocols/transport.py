"""The carrier of a session's frames, apart from what they say."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Protocol

import structlog

from gateway.audio import Outbox
from gateway.protocols.utterance import CLEAN_UP_S
from ttscommon.process.tasks import stop

# How long a client may take for the last messages.
_CLOSE_S: Final = 1.0

log_ = structlog.get_logger(__name__)


class Gone(Exception):
    """The client's connection is over. `lost`: it broke, as far as can be known."""

    def __init__(self, *, lost: bool = False) -> None:
        self.lost = lost


class Transport(Protocol):
    """What carries a session's frames."""

    @property
    def connected(self) -> bool:
        """Whether anything can still be sent."""

    async def receive(self) -> Any:
        """The next frame; raises Gone, and an AntiphonError for what is none."""

    async def send(self, data: str | bytes) -> None:
        """Raises Gone."""

    async def close(self, code: int) -> None:
        """Raises Gone."""


async def hang_up(
    transport: Transport, outbox: Outbox, sender: asyncio.Task[None], code: int
) -> None:
    """Send what is still to be said, within a bound, and close. `sender` empties the outbox."""
    if not transport.connected:
        await stop(sender, again_s=CLEAN_UP_S)
        return
    outbox.finish()
    if sender.done():
        sender = asyncio.create_task(outbox.send_all(transport.send))
    await asyncio.wait((sender,), timeout=_CLOSE_S)
    await stop(sender, again_s=CLEAN_UP_S)
    try:
        async with asyncio.timeout(_CLOSE_S):
            await transport.close(code)
    except (TimeoutError, Gone):
        log_.debug("session.close_unheard")
