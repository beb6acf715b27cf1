"""`python -m tests.chaos limits`: a key's limits hold in sum over four gateway processes.

For each limit as many requests as would use it up at one gateway are sent to every gateway at once,
and twice: what is admitted may be over by one for each of the other gateways, and the second time
only by what came back meanwhile. Exit status 1 if it is more.
"""

import asyncio
import hashlib
import json
import time
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

from tests.chaos.command import OPEN_DOOR, in_folder, options
from tests.chaos.listener import TEXT
from tests.chaos.stack import ChaosStack, chaos_stack

_GATEWAYS = 4
_STREAMS, _REQUESTS, _CHARACTERS = 8, 20, 2000
_TEXT_CHARACTERS = 100
_MINUTE_S = 60.0
_KEYS = {
    "streams": f"streams = {_STREAMS}",
    "requests": f"requests_per_minute = {_REQUESTS}",
    "characters": f"characters_per_minute = {_CHARACTERS}",
}
_LIMITS = {
    "streams": _STREAMS,
    "requests": _REQUESTS,
    "characters": _CHARACTERS // _TEXT_CHARACTERS,
}
# More than the gateways' turns take, and far less than the speeches of the first wave.
_BETWEEN_S = 1.0


@dataclass(frozen=True)
class Found:
    """Of one limit: `limit` requests were allowed, and `at_first` and `then` admitted.

    `most`: what docs/decisions/rate-limits.md allows in all.
    """

    limit: int
    asked: int
    at_first: int
    then: int
    took_s: float
    most: float

    @property
    def kept(self) -> bool:
        """All that may be admitted was, and no more."""
        return self.limit <= self.at_first and self.at_first + self.then <= self.most


async def measure(folder: Path) -> dict[str, Found]:
    """By limit; see the module."""
    path = folder / "keys.toml"
    path.write_text(
        "\n".join(
            f'[keys.{name}]\nsha256 = "{hashlib.sha256(name.encode()).hexdigest()}"\n{limit}'
            for name, limit in _KEYS.items()
        )
    )
    gateway = {"ANTIPHON_KEYS_FILE": str(path), **OPEN_DOOR}
    async with chaos_stack(folder / "stack", gateways=_GATEWAYS, gateway=gateway) as stack:
        return {name: await _limit(stack, name, limit) for name, limit in _LIMITS.items()}


async def _limit(stack: ChaosStack, name: str, limit: int) -> Found:
    """Two waves of `limit` requests at every gateway, all of them listened to until both are over.

    The streams of the first wave stay open during the second.
    """
    began_s = time.monotonic()
    text = TEXT * 4 if name == "streams" else TEXT[:_TEXT_CHARACTERS]
    async with AsyncExitStack() as open_:
        at_first = await _wave(stack, open_, name, text, limit)
        await asyncio.sleep(_BETWEEN_S)
        then = await _wave(stack, open_, name, text, limit)
        took_s = time.monotonic() - began_s
    most = limit + _GATEWAYS - 1.0
    if name != "streams":
        most += limit * took_s / _MINUTE_S
    return Found(limit, 2 * limit * _GATEWAYS, at_first, then, round(took_s, 2), round(most, 1))


async def _wave(stack: ChaosStack, open_: AsyncExitStack, key: str, text: str, count: int) -> int:
    """How many were admitted of `count` at each gateway."""
    ports = [stack.children[name].ports["http"] for name in stack.names("gateway")]
    clients = [
        await open_.enter_async_context(
            httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{port}",
                headers={"authorization": f"Bearer {key}"},
                limits=httpx.Limits(max_connections=None),
                timeout=30.0,
            )
        )
        for port in ports
    ]
    body = {"input": text, "response_format": "pcm"}

    async def ask(client: httpx.AsyncClient) -> int:
        request = client.build_request("POST", "/v1/audio/speech", json=body)
        response = await client.send(request, stream=True)
        open_.push_async_callback(response.aclose)
        if response.status_code not in (200, 429):
            raise RuntimeError(f"{response.status_code}: {(await response.aread()).decode()}")
        return response.status_code

    statuses = await asyncio.gather(*(ask(client) for client in clients for _ in range(count)))
    return statuses.count(200)


def main() -> int:
    options("limits", __doc__).parse_args()
    found = in_folder(measure)
    print(json.dumps({name: {**asdict(each), "kept": each.kept} for name, each in found.items()}))
    return int(not all(each.kept for each in found.values()))
