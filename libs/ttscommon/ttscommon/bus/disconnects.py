"""The broker's own word on who has gone: disconnect events of its system account."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
import structlog

from ttscommon.bus.client import BusClient
from ttscommon.bus.credentials import system_credentials
from ttscommon.bus.faults import Unreachable, reason
from ttscommon.bus.link import Incoming, Link, dial

_SUBJECT: Final = "$SYS.ACCOUNT.*.DISCONNECT"
_COMPLAIN_S: Final = 5.0

log_ = structlog.get_logger(__name__)


class _Event(msgspec.Struct):
    client: dict[str, Any] = {}


class DisconnectWatch:
    """Calls back with the name of every connection that ends. `close` when done."""

    def __init__(self, client: BusClient) -> None:
        self._client = client

    @classmethod
    async def start(cls, link: Link, callback: Callable[[str], None]) -> DisconnectWatch | None:
        """None without a system account; pings alone are slower. Waits for the broker for ever."""
        settings = link.settings
        if not settings.watches_disconnects:
            return None

        async def on_event(message: Incoming) -> None:
            try:
                event = msgspec.json.decode(message.data, type=_Event)
            except (msgspec.MsgspecError, ValueError):
                return
            callback(str(event.client.get("name", "")))

        client = BusClient()
        try:
            await dial(
                client,
                settings,
                name=f"{link.worker_id}-system",
                **system_credentials(settings),
                error_cb=_complain(_COMPLAIN_S),
            )
            await client.subscribe(_SUBJECT, cb=on_event)
        except Unreachable as error:
            log_.error("system_account.unusable", error=reason(error))
            return None
        return cls(client)

    async def close(self) -> None:
        await self._client.close()


def _complain(interval_s: float) -> Callable[[Exception], Awaitable[None]]:
    """An error callback that says at intervals why there is no connection."""
    logged_s = 0.0

    async def complain(error: Exception) -> None:
        nonlocal logged_s
        if time.monotonic() - logged_s >= interval_s:
            logged_s = time.monotonic()
            log_.error("system_account.unusable", error=reason(error))

    return complain
