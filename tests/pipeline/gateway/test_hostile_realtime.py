"""Realtime clients that take what they can: other keys and the gateway's health notice nothing.

`-s` prints the worst probe of the gateway during an attack. Its clients are in the same process.
"""

import asyncio
import base64
import contextlib
import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed

from gateway.protocols.realtime.items import MOST_ITEMS
from gateway.requests.tenants import ByteQuota
from gateway.settings import GatewaySettings
from tests.realtime import Client, opened, sound, words
from tests.stacks import keys_file, probed
from tests.waits import until
from ttscommon.process.tasks import stop
from ttscommon.wire import subjects

A, B = ({"authorization": f"Bearer {name}"} for name in ("alice", "bob"))
pytestmark = pytest.mark.slow
# A turn of 0.1 s and 0.1 s of silence, in mu-law.
NOISE: Final = bytes(np.random.default_rng(5).integers(0, 256, 800, np.uint8)) + b"\xff" * 800


@pytest.fixture
def settings(tmp_path: Path) -> GatewaySettings:
    """A gateway in which alice and bob have keys of their names."""
    return GatewaySettings(port=0, keys_file=keys_file(tmp_path))


async def speaks(stand: Any, key: dict[str, str]) -> None:
    """A client of that key is answered."""
    async with opened(stand.url, additional_headers=key) as client:
        events = await client.ask("One, two three.")
        assert events[-1]["response"]["status"] == "completed", events[-1]
        assert len(sound(events))


def session_of(stand: Any, client: Client) -> Any:
    name = client.events[0]["session"]["id"]
    return next(one for one in stand.gateway.sockets.sessions if one.config["id"] == name)


async def swallow(client: Client) -> None:
    """Read whatever comes."""
    with contextlib.suppress(ConnectionClosed):
        async for _ in client.socket:
            pass


async def test_turns_of_noise_without_end_stay_within_their_keys_share(
    hearing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is a recording and an item, and wants an answer."""
    hearing.stage.script = words
    services = hearing.gateway.context.services
    object.__setattr__(services, "recording_bytes", ByteQuota(100_000, 3600.0))
    objects = hearing.stage.bus.link.jetstream
    async with (
        opened(hearing.url, additional_headers=A) as client,
        probed(hearing, "600 turns of noise"),
    ):
        turns = {"type": "server_vad", "silence_duration_ms": 20, "prefix_padding_ms": 0}
        heard = {"format": {"type": "audio/pcmu"}, "turn_detection": turns}
        await client.configure(audio={"input": heard})
        reading = asyncio.create_task(swallow(client))
        for _ in range(20):
            audio = base64.b64encode(NOISE * 30).decode()
            await client.send("input_audio_buffer.append", audio=audio)
        await speaks(hearing, B)
        session = session_of(hearing, client)
        await until(lambda: len(session.said.items.items) >= MOST_ITEMS)
        await speaks(hearing, B)
        await stop(reading)
    assert len(session.said.items.items) <= MOST_ITEMS + 1
    name = hearing.stage.bus.link.name(subjects.PASSING_RECORDINGS)
    assert (await objects.stream_info(f"OBJ_{name}")).state.bytes < 300_000


async def test_large_appends_of_clients_that_do_not_read_hold_up_nobody(stand: Any) -> None:
    """Each turn in them is four events that nobody takes."""
    stand.stage.script = words
    audio = base64.b64encode(NOISE * (14 << 20 >> 11)).decode()
    message = json.dumps({"type": "input_audio_buffer.append", "audio": audio})
    turns = {"type": "server_vad", "silence_duration_ms": 20}
    heard = {"format": {"type": "audio/pcmu"}, "turn_detection": turns}

    async def attack() -> None:
        async with opened(stand.url, additional_headers=A, max_queue=1, compression=None) as client:
            await client.configure(audio={"input": heard})
            try:
                with contextlib.suppress(ConnectionClosed):
                    await client.socket.send(message)
                    await client.socket.send(message)
                    await asyncio.Event().wait()
            finally:
                # What it did not read would keep both ends of the connection closing for ever.
                client.socket.transport.abort()

    attacking = [asyncio.create_task(attack()) for _ in range(6)]
    try:
        async with probed(stand, "15 MiB appends on six sockets"):
            for _ in range(3):
                await speaks(stand, B)
    finally:
        await stop(*attacking)
    await until(lambda: not stand.gateway.sockets.sessions)
