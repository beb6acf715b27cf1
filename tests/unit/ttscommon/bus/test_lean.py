"""Messages that are heard by the task that reads them."""

import asyncio

import pytest
from nats.aio.msg import Msg

from tests.waits import TIMEOUT_S
from ttscommon.bus import Bus
from ttscommon.bus.lean import LeanClient
from ttscommon.wire.errors import BusUnavailable, NoResponders


async def test_coroutines_run_one_behind_another_and_one_that_fails_stops_nothing(bus: Bus) -> None:
    heard: list[str] = []
    over = asyncio.Event()

    async def receive(message: Msg) -> None:
        word = message.data.decode()
        heard.append(f"begin {word}")
        await asyncio.sleep(0)
        if word == "a":
            raise ValueError(word)
        heard.append(f"end {word}")
        if word == "c":
            over.set()

    await bus.link.subscribe("here", receive)
    for word in "abc":
        await bus.link.send_raw("here", word.encode())
    await asyncio.wait_for(over.wait(), TIMEOUT_S)
    assert heard == ["begin a", "begin b", "end b", "begin c", "end c"]


async def test_a_hearer_that_fails_does_not_deafen_the_connection(bus: Bus) -> None:
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    def fail(message: Msg) -> None:
        raise ValueError(message.data)

    await bus.link.subscribe_inline("here", fail)
    await bus.link.subscribe_inline("here", lambda message: heard.put_nowait(message.data))
    await bus.link.send_raw("here", b"1")
    await bus.link.send_raw("here", b"2")
    async with asyncio.timeout(TIMEOUT_S):
        assert [await heard.get(), await heard.get()] == [b"1", b"2"]


async def test_what_is_not_heard_any_more_is_not_run_to_its_end(bus: Bus) -> None:
    began, cancelled = asyncio.Event(), asyncio.Event()

    async def receive(message: Msg) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    subscription = await bus.link.subscribe("here", receive)
    await bus.link.send_raw("here", b"")
    await asyncio.wait_for(began.wait(), TIMEOUT_S)
    await bus.link.unsubscribe(subscription)
    await asyncio.wait_for(cancelled.wait(), TIMEOUT_S)


async def test_headers_arrive_as_they_were_sent(bus: Bus) -> None:
    heard: asyncio.Queue[dict[str, str] | None] = asyncio.Queue()
    await bus.link.subscribe_inline("here", lambda message: heard.put_nowait(message.headers))
    sent = {"C": "17", "traceparent": "00-aa-bb-01", "Name": "größer: so"}
    await bus.link.send_raw("here", b"", sent)
    await bus.link.send_raw("here", b"")
    async with asyncio.timeout(TIMEOUT_S):
        assert [await heard.get(), await heard.get()] == [sent, None]


async def test_a_request_that_is_not_answered_leaves_nothing_behind(bus: Bus) -> None:
    async def mute(message: Msg) -> None:
        del message

    with pytest.raises(NoResponders):
        await bus.link.request("nobody", b"", 5.0)
    await bus.link.subscribe("mute", mute)
    with pytest.raises(BusUnavailable):
        await bus.link.request("mute", b"", 0.01)
    assert not bus.link.client._answers


def test_a_header_that_would_break_the_line_is_left_to_the_library() -> None:
    assert LeanClient._command("s", b"", "", {"A": "b\r\nC: d"}) is None
    whole = LeanClient._command("s", b"xyz", "r", {"A": "b"})
    assert whole == b"HPUB s r 18 21\r\nNATS/1.0\r\nA: b\r\n\r\nxyz\r\n"
    assert LeanClient._command("s", b"xyz", "", None) == b"PUB s  3\r\nxyz\r\n"
