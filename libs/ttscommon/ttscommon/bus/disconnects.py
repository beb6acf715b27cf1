"""The broker's own word on who has gone: disconnect events of its system account."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import structlog
from nats.aio.client import Client

from ttscommon.bus.faults import Unreachable, reason
from ttscommon.bus.link import Incoming, Link, dial

_SUBJECT = "$SYS.ACCOUNT.*.DISCONNECT"

log_ = structlog.get_logger(__name__)


class _Event(msgspec.Struct):
    client: dict[str, Any] = {}


class DisconnectWatch:
    """Calls back with the name of every connection that ends. `close` when done."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @classmethod
    async def start(cls, link: Link, callback: Callable[[str], None]) -> DisconnectWatch | None:
        """None without a system account; pings alone are slower."""
        settings = link.settings
        if settings.system_user is None:
            return None

        async def on_event(message: Incoming) -> None:
            try:
                event = msgspec.json.decode(message.data, type=_Event)
            except (msgspec.MsgspecError, ValueError):
                return
            callback(str(event.client.get("name", "")))

        client = Client()
        try:
            await dial(
                client,
                settings,
                name=f"{link.worker_id}-system",
                user=settings.system_user,
                password=settings.system_password,
                error_cb=_quiet,
            )
            await client.subscribe(_SUBJECT, cb=on_event)
        except Unreachable as error:
            log_.warning("reaper.no_system_account", error=reason(error))
            return None
        return cls(client)

    async def close(self) -> None:
        await self._client.close()


async def _quiet(error: Exception) -> None:
    log_.debug("reaper.error", error=reason(error))
