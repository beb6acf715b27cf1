"""Every private name of nats-py that this package uses, and no other module uses one.

The library has no public way to hear a message without a task, to write what is built already, or
to leave a connection that hangs (docs/decisions/libraries.md). A release of
the library may rename any of these; the tests hold each against the one that is installed.
"""

from __future__ import annotations

import asyncio
from types import MappingProxyType
from typing import Any, Final

from nats.aio.client import Client, Srv
from nats.aio.msg import Msg

# Methods that the library calls: our name for each, which a subclass may override.
HOOKS: Final = MappingProxyType(
    {
        "take_message": "_process_msg",
        "forget_subscription": "_remove_sub",
        "choose_server": "_select_next_server",
        "connect_socket": "_connect_to_server",
        "greet": "_process_connect_init",
        "connect_command": "_connect_command",
        "reconnect": "_attempt_reconnect",
        "ping": "_send_ping",
        "take_error": "_process_err",
    }
)


class OpenClient(Client):
    """The library's client, whose private parts have names of ours.

    A subclass that defines a hook replaces the library's method; `super()` reaches the original.
    """

    take_message = Client._process_msg
    forget_subscription = Client._remove_sub
    choose_server = Client._select_next_server
    connect_socket = Client._connect_to_server
    greet = Client._process_connect_init
    connect_command = Client._connect_command
    reconnect = Client._attempt_reconnect
    ping = Client._send_ping
    take_error = Client._process_err

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for ours, theirs in HOOKS.items():
            if ours in cls.__dict__:
                setattr(cls, theirs, cls.__dict__[ours])

    @property
    def next_number(self) -> int:
        """Of the subscription that is made next."""
        return int(self._sid + 1)

    def fits(self, payload: int, command: int) -> bool:
        """Whether so many bytes can be written now: nothing to wait for, nothing to refuse."""
        room = self._pending_data_size + command <= self._max_pending_size
        return room and payload <= self._max_payload and bool(self.is_connected)

    def write(self, command: bytes) -> None:
        """Hand a whole command to the task that writes the socket."""
        self._pending.append(command)
        self._pending_data_size += len(command)
        if self._flush_queue is not None and self._flush_queue.empty():
            self._flush_queue.put_nowait(asyncio.get_running_loop().create_future())

    def take_buffered(self) -> list[bytes]:
        """What waits for the socket, and is now the caller's to write."""
        buffered, self._pending, self._pending_data_size = self._pending, [], 0
        return buffered

    async def parsed_headers(self, raw: bytes) -> dict[str, str] | None:
        """As the library parses them, statuses included."""
        return await self._process_headers(raw)

    def message(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: dict[str, str] | None
    ) -> Msg:
        """A message as the library builds it."""
        built: Msg = self._build_message(sid, subject, reply, data, headers)
        return built

    async def fail(self, error: Exception) -> None:
        """Treat the connection as lost by `error`."""
        await self._process_op_err(error)

    @property
    def pongs(self) -> int:
        """Answers to pings so far."""
        return int(self._pongs_received)

    @property
    def pool(self) -> list[Srv]:
        """The brokers that it may connect to; may be sorted in place."""
        return self._server_pool

    @property
    def server(self) -> Srv | None:
        """The broker that it is connected to, or was last."""
        return self._current_server

    @property
    def server_info(self) -> dict[str, Any]:
        """What the broker said of itself in its greeting."""
        return self._server_info

    @property
    def socket(self) -> Any:
        """The library's transport; None without a connection."""
        return self._transport

    @property
    def reconnecting(self) -> asyncio.Task[None] | None:
        """The task that connects anew, if there is one."""
        return self._reconnection_task
