"""`python -m tests.chaos stored`: what a second of sound leaves on the broker, log by log.

Fake stages speak so many texts over a stack of their own; the streams' bytes before and after are
the broker's own figures, headers and framing included.
"""

import argparse
import asyncio
import json
import tempfile
from pathlib import Path

import httpx

from antiphon.stack import LocalStack, StackConfig
from ttscommon.bus import Bus
from ttscommon.wire.subjects import LOGS

_TEXT = (
    "The tide comes in over the sand, and the boats turn slowly on their chains; "
    "one after another the lamps are lit along the wall, and somebody begins to sing. "
)
_RATE_HZ = 16_000
_TIMEOUT_S = 120.0


async def measure(requests: int, repeats: int, folder: Path) -> dict[str, float]:
    """Bytes a second of sound in each log, of `requests` that speak the text `repeats` times."""
    async with LocalStack(StackConfig(port=0, store=folder, engine="fake")) as stack:
        bus = await Bus.connect(stack.bus, "bench")
        try:
            before = await _sizes(bus)
            sounds = [await _speak(stack.url, _TEXT * repeats, seed) for seed in range(requests)]
            await asyncio.sleep(1.0)  # the last records are committed behind
            after = await _sizes(bus)
        finally:
            await bus.close()
    found = {name: (after[name] - before[name]) / sum(sounds) for name in after}
    return {"sound_s": sum(sounds), **found, "all": sum(found.values())}


async def _sizes(bus: Bus) -> dict[str, int]:
    link = bus.link
    infos = [await link.jetstream.stream_info(link.name(log.stream)) for log in LOGS]
    return {log.stream: info.state.bytes for log, info in zip(LOGS, infos, strict=True)}


async def _speak(url: str, text: str, seed: int) -> float:
    """Seconds of sound."""
    body = {
        "input": text, "response_format": "pcm", "sample_rate": _RATE_HZ, "seed": seed,
        "resumable": True,
    }  # fmt: skip
    async with httpx.AsyncClient(base_url=url, timeout=_TIMEOUT_S) as client:
        response = await client.post("/v1/audio/speech", json=body)
    response.raise_for_status()
    return len(response.content) / 2 / _RATE_HZ


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos stored", description=__doc__)
    parser.add_argument("--requests", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=4)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stored-") as folder:
        found = asyncio.run(measure(arguments.requests, arguments.repeats, Path(folder)))
    print(json.dumps({name: round(value, 1) for name, value in found.items()}))


if __name__ == "__main__":
    main()
