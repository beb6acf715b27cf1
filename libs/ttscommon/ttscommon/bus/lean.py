"""The client library's busiest paths with less work a message; everything else is the library's.

The library runs a task and a queue for every subscription and wakes them for every message, draws
random bytes for every request, and builds what it publishes in five coroutines. Here a message is
heard by the task that reads the socket, answers are told apart by a counter, and what is published
is put together in one call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import nats.errors
import structlog
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from ttscommon.bus.library import OpenClient

_LINE: Final = b"NATS/1.0\r\n"
_NO_RESPONDERS: Final = "503"

log_ = structlog.get_logger(__name__)


# Takes a subscription's messages one after another; must not block.
Callback = Callable[[Msg], object]


class InTurn:
    """A Callback that has a coroutine run for each message, one behind another."""

    def __init__(self, receive: Callable[[Any], Awaitable[None]]) -> None:
        self._receive = receive
        self._waiting: deque[Any] = deque()
        self._task: asyncio.Task[None] | None = None

    def __call__(self, message: Any, /) -> None:
        self._waiting.append(message)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())

    def stop(self) -> None:
        """Nothing more is wanted, what runs included."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()

    async def _work(self) -> None:
        try:
            while self._waiting:
                try:
                    await self._receive(self._waiting.popleft())
                except Exception as error:
                    log_.error("receive.failed", exc_info=error)
        finally:
            self._task = None


class LeanClient(OpenClient):
    """A Client that also hears messages at once, without a task for every subscription."""

    def __init__(self) -> None:
        super().__init__()
        self._callbacks: dict[int, Callback] = {}
        self._answers: dict[str, Callback] = {}
        self._asked = 0
        self._answers_at = ""

    async def subscribe_inline(self, subject: str, callback: Callback) -> Subscription:
        """Have `callback` called with every message on `subject`, by the task that reads."""
        number = self.next_number  # nothing may come before it is known
        self._callbacks[number] = callback
        try:
            return await self.subscribe(subject)
        except BaseException:
            self._callbacks.pop(number, None)
            raise

    @contextmanager
    def answered(self, callback: Callback) -> Iterator[str]:
        """A subject for answers, all of which `callback` gets while the context lasts.

        `listen_for_answers` must have been called.
        """
        self._asked += 1
        token = str(self._asked)
        self._answers[token] = callback
        try:
            yield self._answers_at + token
        finally:
            del self._answers[token]

    async def listen_for_answers(self) -> None:
        """Subscribe to everything that `answered` gives out; once is enough."""
        if not self._answers_at:
            inbox = self.new_inbox()
            self._answers_at = inbox + "."
            await self.subscribe_inline(inbox + ".*", self._on_answer)

    async def request(
        self,
        subject: str,
        payload: bytes = b"",
        timeout: float = 0.5,
        old_style: bool = False,
        headers: dict[str, Any] | None = None,
    ) -> Msg:
        """The first answer; raises NoRespondersError, or TimeoutError of the library's."""
        del old_style
        await self.listen_for_answers()
        loop = asyncio.get_running_loop()
        first: asyncio.Future[Msg] = loop.create_future()
        expiry = loop.call_later(timeout, _expire, first)
        with self.answered(partial(_answer, first)) as reply:
            try:
                await self.publish(subject, payload, reply, headers)
                message = await first
            finally:
                expiry.cancel()
        if message.headers and message.headers.get("Status") == _NO_RESPONDERS:
            raise nats.errors.NoRespondersError
        return message

    async def publish(
        self,
        subject: str,
        payload: bytes = b"",
        reply: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        """As the library's, for subjects that are known to be well-formed."""
        command = self._command(subject, payload, reply, headers)
        if command is None or not self.fits(len(payload), len(command)):
            await super().publish(subject, payload, reply, headers)
            return
        self.stats["out_msgs"] += 1
        self.stats["out_bytes"] += len(payload)
        self.write(command)

    @staticmethod
    def _command(
        subject: str, payload: bytes, reply: str, headers: dict[str, str] | None
    ) -> bytes | None:
        """What goes over the wire; None for headers that need the library's care."""
        if not headers:
            return b"PUB %b %b %d\r\n%b\r\n" % (
                subject.encode(), reply.encode(), len(payload), payload,
            )  # fmt: skip
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        if lines.count("\n") != len(headers) or lines.count("\r") != len(headers):
            return None
        head = b"%b%b\r\n" % (_LINE, lines.encode())
        return b"HPUB %b %b %d %d\r\n%b%b\r\n" % (
            subject.encode(), reply.encode(), len(head), len(head) + len(payload), head, payload,
        )  # fmt: skip

    def _on_answer(self, message: Msg) -> None:
        callback = self._answers.get(message.subject[len(self._answers_at) :])
        if callback is not None:
            callback(message)

    async def take_message(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        """Call the message's callback; the library's way without one."""
        callback = self._callbacks.get(sid)
        if callback is None:
            await super().take_message(sid, subject, reply, data, headers)
            return
        self.stats["in_msgs"] += 1
        self.stats["in_bytes"] += len(data)
        found = await self._headers(headers) if headers else None
        try:
            callback(self.message(sid, subject, reply, data, found))
        except Exception as error:
            log_.error("callback.failed", exc_info=error)  # the others must be heard all the same

    async def _headers(self, raw: bytes) -> dict[str, str] | None:
        if not raw.startswith(_LINE):
            return await self.parsed_headers(raw)  # a status
        pairs = [line.partition(":") for line in raw[len(_LINE) : -4].decode().split("\r\n")]
        return {name: value.strip() for name, _, value in pairs}

    def forget_subscription(self, sid: int, max_msgs: int = 0) -> None:
        """Stop the subscription's callback too."""
        callback = self._callbacks.pop(sid, None)
        if isinstance(callback, InTurn):
            callback.stop()
        super().forget_subscription(sid, max_msgs)


def _answer(first: asyncio.Future[Msg], message: Msg) -> None:
    if not first.done():
        first.set_result(message)


def _expire(first: asyncio.Future[Msg]) -> None:
    if not first.done():
        first.set_exception(nats.errors.TimeoutError())
