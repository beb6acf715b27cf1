"""`python -m tests.chaos stored`: what a second of sound leaves on the broker, log by log.

Fake stages speak so many texts over a stack of their own; the streams' bytes before and after are
the broker's own figures, headers and framing included.
"""

import asyncio
import json
from pathlib import Path

import httpx

from antiphon.stack import LocalStack, StackConfig
from tests.chaos.command import RATE_HZ, in_folder, options
from tests.chaos.probe import log_bytes
from tests.chaos.stack import connected

_TEXT = (
    "The tide comes in over the sand, and the boats turn slowly on their chains; "
    "one after another the lamps are lit along the wall, and somebody begins to sing. "
)
_TIMEOUT_S = 120.0


async def measure(folder: Path, requests: int, repeats: int) -> dict[str, float]:
    """Bytes a second of sound in each log, of `requests` that speak the text `repeats` times."""
    config = StackConfig(port=0, store=folder, engine="fake")
    async with LocalStack(config) as stack, connected(stack.bus) as bus:
        before = await log_bytes(bus)
        sounds = [await _speak(stack.url, _TEXT * repeats, seed) for seed in range(requests)]
        await asyncio.sleep(1.0)  # the last records are committed behind
        after = await log_bytes(bus)
    found = {name: (after[name] - before[name]) / sum(sounds) for name in after}
    return {"sound_s": sum(sounds), **found, "all": sum(found.values())}


async def _speak(url: str, text: str, seed: int) -> float:
    """Seconds of sound."""
    body = {
        "input": text, "response_format": "pcm", "sample_rate": RATE_HZ, "seed": seed,
        "resumable": True,
    }  # fmt: skip
    async with httpx.AsyncClient(base_url=url, timeout=_TIMEOUT_S) as client:
        response = await client.post("/v1/audio/speech", json=body)
    response.raise_for_status()
    return len(response.content) / 2 / RATE_HZ


def main() -> None:
    parser = options("stored", __doc__)
    parser.add_argument("--requests", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=4)
    told = parser.parse_args()
    found = in_folder(lambda folder: measure(folder, told.requests, told.repeats))
    print(json.dumps({name: round(value, 1) for name, value in found.items()}))
