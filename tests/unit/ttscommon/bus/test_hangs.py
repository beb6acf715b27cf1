"""A connection that hangs is left for a broker that answers; a slow broker or client is not."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon.stack import LocalStack, StackConfig
from tests.waits import TIMEOUT_S, until
from ttscommon.bus.hangs import Address, HangTuning, HangWatch
from ttscommon.bus.link import Link, LinkTuning
from ttscommon.process.settings import BusSettings

DEFAULT = HangTuning()


class Connection:
    """A connection whose broker answers pings as long as `answers`."""

    def __init__(self, *addresses: Address, answers: bool = False) -> None:
        self.is_connected = True
        self.heard = 0
        self.addresses: Sequence[Address] = addresses
        self.answers = answers
        self.asked = 0
        self.left: list[Address] = []

    async def ask(self) -> None:
        self.asked += 1
        self.heard += self.answers

    async def leave(self, better: Address) -> None:
        self.left.append(better)


class Clock:
    """Time that passes in sleeps only; `nap_s` more passes in one of them, as in a stopped process.

    The sleep that would end after `until_s` never does.
    """

    def __init__(self, until_s: float, nap_s: float = 0.0) -> None:
        self.now_s = 0.0
        self.done = asyncio.Event()
        self._until_s = until_s
        self._nap_s = nap_s

    def __call__(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds + self._nap_s
        self._nap_s = 0.0
        if self.now_s > self._until_s:
            self.done.set()
            await asyncio.Event().wait()


async def watch(connection: Connection, clock: Clock) -> None:
    watching = asyncio.create_task(HangWatch(connection, HangTuning(), clock, clock.sleep).run())
    await asyncio.wait_for(clock.done.wait(), TIMEOUT_S)
    watching.cancel()


@asynccontextmanager
async def broker_that_says(greeting: bytes) -> AsyncIterator[Address]:
    """And no more."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[:2]


@pytest.fixture
async def greeter() -> AsyncIterator[Address]:
    async with broker_that_says(b"INFO {}\r\n") as address:
        yield address


another = greeter


@pytest.fixture
async def mute() -> AsyncIterator[Address]:
    """A broker that is stopped: its system takes connections and nothing answers them."""
    async with broker_that_says(b"") as address:
        yield address


async def test_a_silent_connection_is_left_within_a_second(greeter: Address, mute: Address) -> None:
    connection = Connection(greeter, mute)
    await watch(connection, Clock(1.0))
    assert connection.left == [greeter]


async def test_a_connection_that_answers_pings_is_kept(greeter: Address, mute: Address) -> None:
    connection = Connection(greeter, mute, answers=True)
    await watch(connection, Clock(10.0))
    assert connection.left == []
    assert connection.asked >= 10


async def test_the_only_broker_is_waited_for_while_it_answers_nobody(mute: Address) -> None:
    connection = Connection(mute)
    await watch(connection, Clock(4.0))
    assert connection.left == []


async def test_a_broker_that_greets_others_but_answers_late_has_more_time(greeter: Address) -> None:
    connection = Connection(greeter)
    await watch(connection, Clock(2.0))
    assert connection.left == []
    await watch(connection, Clock(4.0))
    assert connection.left == [greeter]


async def test_time_in_which_we_were_stopped_does_not_count(
    greeter: Address, mute: Address
) -> None:
    connection = Connection(greeter, mute)
    await watch(connection, Clock(8.5, nap_s=8.0))
    assert connection.left == []


async def test_a_broker_that_was_only_slow_has_the_next_given_more_time(
    greeter: Address, another: Address
) -> None:
    connection = Connection(greeter, another)
    await watch(connection, Clock(30.0))
    assert 3 <= len(connection.left) <= 10


@pytest.mark.slow
async def test_brokers_that_hang_one_after_another_are_left_as_soon_as_the_first(
    greeter: Address, mute: Address
) -> None:
    connection = Connection(greeter, mute)
    await watch(connection, Clock(10.0))
    assert len(connection.left) >= 9


@asynccontextmanager
async def stopped(stack: LocalStack, port: int) -> AsyncIterator[None]:
    """The broker at `port` stands still.

    The signal is taken by one of its threads once it runs: until then the others answer.
    """
    broker = next(c for c in stack.children.values() if c.ports["nats"] == port)
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        threads = Path(f"/proc/{broker.pid}/task")
        await until(lambda: not any(map(_runs, threads.iterdir())))
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def _runs(thread: Path) -> bool:
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0] != "T"
    except OSError:  # it has just ended
        return True


class Pair:
    """A link that hears what it sends itself, and how often it changed brokers.

    What is sent is numbered, so that an echo that comes late is not taken for that of a later word.
    """

    def __init__(self, link: Link) -> None:
        self.link = link
        self.moves = 0
        self.sent = 0
        self.heard: asyncio.Queue[int] = asyncio.Queue()

    @classmethod
    async def on(cls, settings: BusSettings, hangs: HangTuning = DEFAULT) -> Pair:
        """`hangs` alone notices: the library does not ping within a test."""
        pair = cls(await Link.connect(settings, "test", LinkTuning(ping_s=3600, hangs=hangs)))
        pair.link.on_reconnect(pair._moved)
        await pair.link.subscribe_inline(
            "echo", lambda message: pair.heard.put_nowait(int(message.data))
        )
        return pair

    @property
    def port(self) -> int:
        return self.link.client.addresses[-1][1]

    async def _moved(self) -> None:
        self.moves += 1

    async def send(self) -> None:
        await self.link.send_raw("echo", str(self.sent).encode())
        self.sent += 1

    async def hear(self, first: int) -> None:
        """Wait for the echo of word `first`, or a later one."""
        while await self.heard.get() < first:
            pass

    async def comes_through(self) -> None:
        """Send until something that is sent from now on comes back."""
        hearing = asyncio.create_task(self.hear(self.sent))
        async with asyncio.timeout(TIMEOUT_S):
            while not hearing.done():
                await self.send()
                await asyncio.sleep(0.02)


async def test_work_goes_on_at_another_broker_whatever_is_buffered_for_one_that_is_stopped(
    tmp_path: Path,
) -> None:
    config = StackConfig(brokers=3, gateways=0, talkers=0, vocoders=0, store=tmp_path / "store")
    async with LocalStack(config) as cluster:
        pair = await Pair.on(cluster.bus)
        before = pair.port
        async with stopped(cluster, before):
            for _ in range(64):  # more than the systems between take
                await pair.link.send_raw("elsewhere", bytes(1 << 18))
            await pair.comes_through()
            assert pair.port != before
        await pair.link.close()


@pytest.mark.own_broker
async def test_the_only_broker_loses_nothing_while_it_is_stopped(broker: Any) -> None:
    # It must not be given up for itself, which a broker invites that goes on late.
    pair = await Pair.on(broker.bus, HangTuning(same_s=3600.0))
    async with stopped(broker, pair.port):
        await pair.send()
        await asyncio.sleep(2.5)
    await asyncio.wait_for(pair.hear(0), TIMEOUT_S)
    assert pair.moves == 0
    await pair.link.close()


@pytest.mark.own_broker
async def test_a_link_to_a_stopped_broker_closes_at_once(broker: Any) -> None:
    pair = await Pair.on(broker.bus)
    async with stopped(broker, pair.port):
        for _ in range(64):
            await pair.link.send_raw("elsewhere", bytes(1 << 18))
        await asyncio.wait_for(pair.link.close(), TIMEOUT_S)
