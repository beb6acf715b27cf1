import asyncio

import pytest

from gateway.audio.outbox import Outbox
from gateway.errors import ClientTooSlow
from tests.waits import TIMEOUT_S


async def nothing() -> None:
    return None


class Client:
    """Takes what it is given, when it is let."""

    def __init__(self) -> None:
        self.got: list[str | bytes] = []
        self.reads = asyncio.Event()
        self.reads.set()

    async def take(self, data: str | bytes) -> None:
        await self.reads.wait()
        self.got.append(data)


async def test_everything_leaves_in_order_before_the_end() -> None:
    outbox, client, left = Outbox(100, 1.0), Client(), []

    async def sent() -> None:
        left.append(len(client.got))

    outbox.put("start")
    await outbox.put_audio(b"ab", sent)
    outbox.put("done")
    outbox.finish()
    await outbox.send_all(client.take)
    assert client.got == ["start", b"ab", "done"]
    assert left == [2]


async def test_audio_waits_for_room_and_control_does_not() -> None:
    outbox, client = Outbox(4, 1.0), Client()
    client.reads.clear()
    sending = asyncio.create_task(outbox.send_all(client.take))
    for _ in range(2):
        await outbox.put_audio(b"abcd", nothing)
        await asyncio.sleep(0)
    third = asyncio.create_task(outbox.put_audio(b"efgh", nothing))
    await asyncio.sleep(0)
    assert not third.done()
    outbox.put("error")
    client.reads.set()
    await third
    await outbox.flush()
    outbox.finish()
    await sending
    assert client.got == [b"abcd", b"abcd", "error", b"efgh"]


async def test_control_messages_nobody_reads_are_bounded() -> None:
    outbox = Outbox(limit_bytes=100, timeout_s=1.0)
    outbox.put("x" * (128 << 10))
    with pytest.raises(ClientTooSlow):
        outbox.put("one too many")


async def test_dropped_audio_makes_room_and_is_not_sent() -> None:
    outbox, client = Outbox(4, 1.0), Client()
    await outbox.put_audio(b"abcd", nothing)
    waiting = asyncio.create_task(outbox.put_audio(b"efgh", nothing))
    await asyncio.sleep(0)
    outbox.drop_audio()
    await asyncio.wait_for(waiting, TIMEOUT_S)
    outbox.put("done")
    outbox.finish()
    await outbox.send_all(client.take)
    assert client.got == [b"efgh", "done"]
