"""The client library's connection, made to fail the way a service needs it to."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Final

import nats.errors
from nats.aio.client import Srv

from ttscommon.bus.faults import Unreachable, is_refusal
from ttscommon.bus.hangs import Address, HangTuning, HangWatch
from ttscommon.bus.lean import LeanClient

_CLOSE_S: Final = 1.0
_ASK_S: Final = 0.2
# For so long a broker that hung or did not greet is tried behind the others.
_AVOIDED_S: Final = 10.0


class NoTls(nats.errors.Error):
    """The broker offers a connection in the clear, and TLS was asked for."""


class BusClient(LeanClient):
    """Reconnects when the broker revokes its credentials, and sends none in the clear.

    The library closes for good when a broker that it is connected to says that the credentials do
    not hold any more, which is what a rotation looks like; the next attempt reads them anew. It
    skips TLS where the broker does not ask for it. It leaves the sockets of attempts that failed or
    were given up to the collector; here each is closed. And its pings overtake what it has
    buffered, so that a flush proves nothing: a drained subscription lost what came meanwhile.
    A connection that hangs it leaves after minutes, and waits then until the broker that hangs has
    taken what was buffered for it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._watching: asyncio.Task[None] | None = None
        self._avoided: dict[Address, float] = {}
        self._better: Address | None = None

    def watch(self, tuning: HangTuning) -> None:
        """From now on, leave a connection that hangs; until `close`."""
        self._watching = asyncio.create_task(HangWatch(self, tuning).run(), name="hangs")

    @property
    def heard(self) -> int:
        """Grows with every message and every answer to a ping."""
        return int(self.stats["in_msgs"] + self.pongs)

    @property
    def addresses(self) -> list[Address]:
        """The brokers that it may connect to, the present one last."""
        known = dict.fromkeys(map(_address, self.pool))
        if self.server is not None:
            present = _address(self.server)
            known.pop(present, None)
            known[present] = None
        return list(known)

    async def ask(self) -> None:
        """Send a ping without waiting for its answer."""
        with contextlib.suppress(*Unreachable):
            await asyncio.wait_for(self.ping(), _ASK_S)

    async def leave(self, better: Address) -> None:
        """Drop a connection that hangs, and connect anew, to `better` first."""
        if self.server is not None:
            self._avoid(self.server)
        self._avoided.pop(better, None)
        self._better = better
        await self.fail(nats.errors.StaleConnectionError())

    async def close(self) -> None:
        """Disconnect for good, in whatever state an attempt to reconnect may be."""
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()
        await super().close()
        task = self.reconnecting
        if task is not None and task is not asyncio.current_task() and not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=_CLOSE_S)
        await self.hang_up()

    async def hang_up(self) -> None:
        if self.socket is None:
            return
        self.socket.close()
        with contextlib.suppress(OSError, TimeoutError):
            await asyncio.wait_for(self.socket.wait_closed(), _CLOSE_S)

    def abort(self) -> None:
        """Close the socket and forget what was buffered for it: the peer may take nothing."""
        self.take_buffered()
        self._drop_socket()

    def _drop_socket(self) -> None:
        writer = getattr(self.socket, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()

    def _avoid(self, server: Srv) -> None:
        self._avoided[_address(server)] = time.monotonic() + _AVOIDED_S

    def _rank(self, server: Srv) -> int:
        address = _address(server)
        if address == self._better:
            return 0
        return 2 if self._avoided.get(address, 0.0) > time.monotonic() else 1

    async def choose_server(self) -> None:
        """The better broker first, those to avoid last."""
        self.pool.sort(key=self._rank)
        self._better = None
        await super().choose_server()

    async def greet(self) -> None:
        """Avoid a broker that does not greet."""
        server = self.server
        try:
            await super().greet()
        except (TimeoutError, OSError):
            if server is not None:
                self._avoid(server)
            raise

    async def reconnect(self) -> None:
        """Close the socket first: a broker that hangs takes nothing more."""
        self._drop_socket()
        await super().reconnect()

    async def ping(self, future: asyncio.Future[bool] | None = None) -> None:
        """Behind what is buffered, so that its answer proves that all was taken."""
        if self.is_connected and (buffered := self.take_buffered()):
            self.socket.writelines(buffered)
        await super().ping(future)

    async def take_error(self, err_msg: str) -> None:
        """Reconnect where the broker refuses the credentials."""
        error = nats.errors.Error(f"nats: {err_msg}")
        if is_refusal(error):
            await self.fail(error)
        else:
            await super().take_error(err_msg)

    async def connect_socket(self, s: Srv) -> None:
        """Connect anew, without what the attempt before has left."""
        if self.socket is not None:
            self.socket.close()
        await super().connect_socket(s)

    def connect_command(self) -> bytes:
        """Without TLS, where it was asked for, nothing is sent."""
        if "tls" in self.options and not self.server_info.get("tls_required"):
            raise NoTls("the broker does not offer TLS")
        return bytes(super().connect_command())


def _address(server: Srv) -> Address:
    return server.uri.hostname or "", server.uri.port or 0
