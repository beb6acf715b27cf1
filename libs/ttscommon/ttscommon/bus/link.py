"""The connection to the broker: it reconnects for ever, and everything of the bus hangs on it."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import nats.errors
import structlog
from nats.js import JetStreamContext

from ttscommon.bus.client import BusClient
from ttscommon.bus.credentials import credentials
from ttscommon.bus.faults import StoreState, Trouble, Unreachable, reason
from ttscommon.bus.hangs import HangTuning
from ttscommon.bus.lean import Callback, InTurn
from ttscommon.bus.permissions import inbox_prefix
from ttscommon.process.settings import BusSettings
from ttscommon.wire.errors import BusRefused, BusUnavailable, MalformedMessage, NoResponders
from ttscommon.wire.messages import Message, decode, encode

log_ = structlog.get_logger(__name__)

Hook = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class LinkTuning:
    """The connection to the broker. The library's own defaults, in brackets, are for patience."""

    connect_s: int = 1
    """How long an attempt to connect may take."""
    reconnect_s: float = 0.05
    """Pause between two attempts (2 s)."""
    ping_s: int = 5
    """Between two of the library's pings (120 s)."""
    pings: int = 2
    """A connection is given up after so many unanswered pings (2), and earlier, as `hangs` says,
    where another can be had.
    """
    pending_bytes: int = 64 << 20
    """What may wait for the socket (2 MB)."""
    api_s: float = 3.0
    """How long a JetStream request may take."""
    close_s: float = 1.0
    """How long the last flush may take."""
    refused_s: float = 30.0
    """How long the broker may refuse the credentials, e.g. while they are rotated, before the
    process gives up.
    """
    complain_s: float = 5.0
    """Between two lines of log about a broker that is not there."""
    hangs: HangTuning = field(default_factory=HangTuning)
    """How a broker that stopped answering is noticed."""


class Incoming(Protocol):
    """A message as a subscription gets it."""

    data: bytes
    reply: str
    headers: dict[str, str] | None

    async def respond(self, data: bytes) -> None: ...


Receive = Callable[[Any], Awaitable[None]]


class Link:
    """One process's connection. Build with `connect`; `close` when done.

    Subjects carry the deployment's prefix on the wire and nowhere else, so that several deployments
    share a broker. `client`, `jetstream`, `subject`, `name` and `ask` are for the modules of this
    package alone. `store`: what is known of the broker's store, while a StoreWatch runs.
    """

    def __init__(self, settings: BusSettings, name: str, tuning: LinkTuning = LinkTuning()) -> None:
        self.worker_id = f"{name}-{secrets.token_hex(6)}"
        self._inbox = inbox_prefix(settings.prefix, name)
        self.settings = settings
        self.client = BusClient()
        self.api_s = tuning.api_s
        self.store = StoreState()
        self._tuning = tuning
        self._hooks: list[Hook] = []
        self._trouble = Trouble(tuning.refused_s, tuning.complain_s)
        self._connecting = True
        self._closing = False

    @classmethod
    async def connect(
        cls, settings: BusSettings, name: str, tuning: LinkTuning = LinkTuning()
    ) -> Self:
        """Connect, waiting for the broker as long as it takes.

        Raises BusRefused if it goes on refusing the credentials.
        """
        link = cls(settings, name, tuning)
        while True:
            try:
                await link._connect()
                return link
            except Unreachable as error:
                link._trouble.saw(error)
                await asyncio.sleep(random.uniform(0.1, 0.4))

    async def _connect(self) -> None:
        await dial(
            self.client,
            self.settings,
            self._tuning,
            name=self.worker_id,
            inbox_prefix=self._inbox,
            **credentials(self.settings),
            error_cb=self._on_error,
            disconnected_cb=self._on_disconnect,
            reconnected_cb=self._on_reconnect,
            closed_cb=self._on_closed,
        )
        self._connecting = False
        self._trouble.over()
        self.jetstream: JetStreamContext = self.client.jetstream(timeout=self._tuning.api_s)

    @property
    def connected(self) -> bool:
        return bool(self.client.is_connected)

    @property
    def closed(self) -> bool:
        """Closed for good: nothing will ever come or go here again."""
        return bool(self.client.is_closed)

    async def failed(self) -> None:
        """Wait until this connection has failed for good; raises BusRefused then."""
        await self._trouble.final.wait()
        raise BusRefused(self._trouble.last)

    def subject(self, subject: str) -> str:
        """`subject` as it is on the wire."""
        return f"{self.settings.prefix}.{subject}"

    def name(self, name: str) -> str:
        """A stream's, consumer's or bucket's name at the broker."""
        return f"{self.settings.prefix}-{name}"

    async def send(self, subject: str, message: Message) -> None:
        """Publish on core NATS; dropped while disconnected, like everything that is only live."""
        await self.send_raw(subject, encode(message))

    async def send_raw(
        self, subject: str, data: bytes, headers: dict[str, str] | None = None
    ) -> None:
        """`send` for bytes that are encoded already."""
        await self.reply(self.subject(subject), data, headers)

    async def reply(self, inbox: str, data: bytes, headers: dict[str, str] | None = None) -> None:
        """`send_raw` to where a message said that an answer may go."""
        if not self.connected:
            return
        try:
            await self.client.publish(inbox, data, headers=headers)
        except (nats.errors.Error, OSError) as error:
            log_.debug("send.dropped", subject=inbox, error=reason(error))

    async def request(self, subject: str, data: bytes, timeout_s: float) -> bytes:
        """Ask the subscribers of `subject`, and wait for the first answer.

        Raises NoResponders without a subscriber, BusUnavailable without an answer in time.
        """
        return await self.ask(self.subject(subject), data, timeout_s)

    async def ask(self, subject: str, data: bytes, timeout_s: float) -> bytes:
        """`request` on a subject of the broker's own."""
        try:
            return bytes((await self.client.request(subject, data, timeout=timeout_s)).data)
        except nats.errors.NoRespondersError as error:
            raise NoResponders(f"there is no subscriber to {subject}") from error
        except Unreachable as error:
            raise BusUnavailable(f"no answer on {subject}: {reason(error)}") from error

    async def subscribe(self, subject: str, receive: Receive) -> Any:
        """Call `receive` with every Incoming; returns the subscription, for `unsubscribe`."""
        return await self.subscribe_inline(subject, InTurn(receive))

    async def subscribe_inline(self, subject: str, callback: Callback) -> Any:
        """`subscribe` for a function that does not wait: it is called as messages are read."""
        return await self.client.subscribe_inline(self.subject(subject), callback)

    async def listen(self, subject: str, callback: Callable[[Message], None]) -> Any:
        """Call back with every parsed message on a core subject; returns the subscription."""

        def on_message(message: Incoming) -> None:
            try:
                parsed = decode(message.data)
            except MalformedMessage as error:
                log_.warning("listen.malformed", subject=subject, error=error.message)
                return
            callback(parsed)

        return await self.subscribe_inline(subject, on_message)

    async def unsubscribe(self, subscription: Any) -> None:
        """End a subscription; nothing to do when the connection is gone."""
        try:
            await subscription.unsubscribe()
        except (nats.errors.Error, OSError):
            log_.debug("unsubscribe.dropped")
        finally:
            # It and its iterator refer to each other, and full collections are rare.
            subscription._message_iterator = None

    @contextmanager
    def reconnections(self) -> Iterator[asyncio.Event]:
        """What is set by every reconnection while the context lasts."""
        reconnected = asyncio.Event()

        async def hook() -> None:
            reconnected.set()

        self.on_reconnect(hook)
        try:
            yield reconnected
        finally:
            self.off_reconnect(hook)

    def on_reconnect(self, hook: Hook) -> None:
        """Call `hook` after every reconnection until `off_reconnect`."""
        self._hooks.append(hook)

    def off_reconnect(self, hook: Hook) -> None:
        if hook in self._hooks:
            self._hooks.remove(hook)

    async def close(self) -> None:
        """Flush what is buffered, within a bound, and disconnect."""
        self._closing = True
        try:
            await asyncio.wait_for(self.client.flush(), self._tuning.close_s)
        except Unreachable:
            log_.debug("close.unflushed")
            self.client.abort()  # else closing waits until the broker has taken what is buffered
        await self.client.close()

    async def _on_disconnect(self) -> None:
        if not self._closing:
            log_.warning("bus.disconnected")

    async def _on_reconnect(self) -> None:
        log_.info("bus.reconnected")
        self._trouble.over()
        self.store.forget()
        for hook in list(self._hooks):
            await hook()

    async def _on_error(self, error: Exception) -> None:
        self._trouble.saw(error)
        if not self._connecting:
            return
        # The library tries for ever, and swallows a cancellation that comes while it cleans up.
        if self._trouble.final.is_set():
            raise BusRefused(self._trouble.last)
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError

    async def _on_closed(self) -> None:
        if not self._closing:
            self._trouble.give_up("the connection has ended for good")


async def dial(
    client: BusClient, settings: BusSettings, tuning: LinkTuning = LinkTuning(), **options: Any
) -> None:
    """Connect `client` the way everything here does: reconnecting soon, and for ever.

    An attempt that fails or is cancelled leaves no socket open.
    """
    try:
        await client.connect(
            list(settings.urls),
            connect_timeout=tuning.connect_s,
            reconnect_time_wait=tuning.reconnect_s,  # type: ignore[arg-type]  # fractions work
            max_reconnect_attempts=-1,
            ping_interval=tuning.ping_s,
            max_outstanding_pings=tuning.pings,
            pending_size=tuning.pending_bytes,
            **options,
        )
    except BaseException:
        await client.hang_up()
        raise
    client.watch(tuning.hangs)
