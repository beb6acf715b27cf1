"""The client library's connection, made to fail the way a service needs it to."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

import nats.errors
from nats.aio.client import Srv

from ttscommon.bus.faults import is_refusal
from ttscommon.bus.lean import LeanClient

_CLOSE_S: Final = 1.0


class NoTls(nats.errors.Error):
    """The broker offers a connection in the clear, and TLS was asked for."""


class BusClient(LeanClient):
    """Reconnects when the broker revokes its credentials, and sends none in the clear.

    The library closes for good when a broker that it is connected to says that the credentials do
    not hold any more, which is what a rotation looks like; the next attempt reads them anew. It
    skips TLS where the broker does not ask for it. It leaves the sockets of attempts that failed or
    were given up to the collector; here each is closed. And its pings overtake what it has
    buffered, so that a flush proves nothing: a drained subscription lost what came meanwhile.
    """

    async def close(self) -> None:
        """Disconnect for good, in whatever state an attempt to reconnect may be."""
        await super().close()
        task = self._reconnection_task
        if task is not None and task is not asyncio.current_task() and not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=_CLOSE_S)
        await self.hang_up()

    async def hang_up(self) -> None:
        """Close the socket, if there is one."""
        if self._transport is None:
            return
        self._transport.close()  # type: ignore[no-untyped-call]
        with contextlib.suppress(OSError, TimeoutError):
            closed = self._transport.wait_closed()  # type: ignore[no-untyped-call]
            await asyncio.wait_for(closed, _CLOSE_S)

    async def _send_ping(self, future: asyncio.Future[bool] | None = None) -> None:
        if self.is_connected and self._pending:
            buffered, self._pending, self._pending_data_size = self._pending, [], 0
            self._transport.writelines(buffered)  # type: ignore[union-attr]
        await super()._send_ping(future)

    async def _process_err(self, err_msg: str) -> None:
        error = nats.errors.Error(f"nats: {err_msg}")
        if is_refusal(error):
            await self._process_op_err(error)
        else:
            await super()._process_err(err_msg)

    async def _connect_to_server(self, s: Srv) -> None:
        """Connect anew, without what the attempt before has left."""
        if self._transport is not None:
            self._transport.close()  # type: ignore[no-untyped-call]
        await super()._connect_to_server(s)

    def _connect_command(self) -> bytes:
        if "tls" in self.options and not self._server_info.get("tls_required"):
            raise NoTls("the broker does not offer TLS")
        return bytes(super()._connect_command())
