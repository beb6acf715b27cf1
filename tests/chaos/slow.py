"""`python -m tests.chaos slow`: listeners that read long texts as fast as they are played.

Fake engines speak ten times as fast as that. Prints, as JSON, how many listeners were cut off, the
seconds of sound that the slowest and the fastest got, the gateway's memory beyond what it had when
idle, at most, and how many of the vocoders' slots were taken at the end, and streams parked.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import httpx
import psutil
from websockets.asyncio.client import connect

from antiphon.stack import LocalStack, StackConfig
from tests.chaos.command import OPEN_DOOR, RATE_HZ, fake, in_folder, options, post

_TEXT: Final = "And then the story went on for a while, as stories do. " * 90
_READ_BYTES: Final = 4096
_LOOK_S: Final = 0.5
_CURVES: Final = {
    "talker": {"base_s": 0.002, "stream_s": 0.00005, "prefill_s": 0.001},
    "vocoder": {"base_s": 0.001, "stream_s": 0.0001, "frame_s": 0.00002},
}

Sound = Callable[[str], AsyncIterator[int]]


async def measure(
    folder: Path, listeners: int, for_s: float, sound: Sound, kill_s: float
) -> dict[str, float]:
    """See the module. `kill_s`: when one of two vocoders is killed; 0 if none is."""
    async with LocalStack(_config(folder, 2 if kill_s else 1)) as stack:
        gateway = psutil.Process(stack.children["gateway"].pid)
        idle_bytes = most_bytes = gateway.memory_info().rss
        got = [0] * listeners
        hearing = [
            asyncio.create_task(_hear(sound(stack.url), got, number)) for number in range(listeners)
        ]
        began_s, killed = time.monotonic(), not kill_s
        while time.monotonic() - began_s < for_s:
            await asyncio.sleep(_LOOK_S)
            most_bytes = max(most_bytes, gateway.memory_info().rss)
            if not killed and time.monotonic() - began_s > kill_s:
                killed = True
                stack.children["vocoder-1"].kill()
        cut_off = sum(task.done() for task in hearing)
        slots, parked = await _vocoders(stack)
        for task in hearing:
            task.cancel()
        await asyncio.gather(*hearing, return_exceptions=True)
    return {
        "cut_off": cut_off,
        "least_s": round(min(got) / 2 / RATE_HZ, 1),
        "most_s": round(max(got) / 2 / RATE_HZ, 1),
        "gateway_mib": round((most_bytes - idle_bytes) / 2**20, 1),
        "slots": slots,
        "parked": parked,
    }


def _config(folder: Path, vocoders: int) -> StackConfig:
    environ = {"gateway": OPEN_DOOR, **fake(folder, _CURVES, ANTIPHON_SLOTS="64")}
    store = folder / "store"
    return StackConfig(port=0, store=store, engine="fake", environ=environ, vocoders=vocoders)


async def _hear(sound: AsyncIterator[int], got: list[int], number: int) -> None:
    """Take no more than has been played. It ends where the gateway ends it."""
    began_s: float | None = None
    async for size in sound:
        began_s = began_s or time.monotonic()
        got[number] += size
        await asyncio.sleep(got[number] / 2 / RATE_HZ - (time.monotonic() - began_s))


async def over_http(url: str) -> AsyncIterator[int]:
    """Bytes of PCM as they are read, with next to no buffer of its own."""
    reader, writer = await post(url, _TEXT, limit=2 * _READ_BYTES)
    while data := await reader.read(_READ_BYTES):
        yield len(data)
    writer.close()


async def over_socket(url: str) -> AsyncIterator[int]:
    """As `over_http`, over the native socket."""
    path = f"{url.replace('http', 'ws', 1)}/v1/audio/speech/stream"
    async with connect(path, max_queue=2, ping_interval=None) as socket:
        await socket.send(json.dumps({"type": "session.config", "sample_rate": RATE_HZ}))
        await socket.send(json.dumps({"type": "input.text", "text": _TEXT}))
        await socket.send(json.dumps({"type": "input.done"}))
        async for message in socket:
            if isinstance(message, bytes):
                yield len(message)


async def _vocoders(stack: LocalStack) -> tuple[float, float]:
    """Slots that are taken, and streams parked."""
    found = {"tts_active_streams": 0.0, "tts_parked_streams": 0.0}
    async with httpx.AsyncClient() as client:
        for name, child in stack.children.items():
            if name.startswith("vocoder"):
                page = await client.get(f"http://127.0.0.1:{child.ports['admin']}/metrics")
                for line in page.text.splitlines():
                    metric = line.partition("{")[0]
                    if metric in found:
                        found[metric] += float(line.split()[-1])
    return found["tts_active_streams"], found["tts_parked_streams"]


def main() -> None:
    parser = options("slow", __doc__)
    parser.add_argument("--listeners", type=int, default=20)
    parser.add_argument("--for-s", type=float, default=60.0)
    parser.add_argument("--socket", action="store_true", help="the native socket instead of HTTP")
    parser.add_argument("--kill-s", type=float, default=0.0, help="kill one of two vocoders then")
    wanted = parser.parse_args()
    sound = over_socket if wanted.socket else over_http
    given = (wanted.listeners, wanted.for_s, sound, wanted.kill_s)
    print(json.dumps(in_folder(lambda folder: measure(folder, *given))))
