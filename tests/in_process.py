"""A gateway, a talker and a vocoder as tasks of the test, over the worker's broker."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import talker.service
import vocoder.service
from gateway.service import serve as serve_gateway
from gateway.settings import GatewaySettings
from talker.settings import TalkerSettings
from tests.waits import TIMEOUT_S
from ttscommon.bus.setup import prepare
from ttscommon.process.service import Service
from ttscommon.process.settings import BusSettings
from vocoder.settings import VocoderSettings


@asynccontextmanager
async def services(
    bus: BusSettings, engines: Mapping[str, Any], gateway: Mapping[str, Any]
) -> AsyncIterator[dict[str, Service]]:
    """One of each by its name, ready; engines are fake unless their settings say otherwise."""
    await prepare(bus, "migrate")
    common = {"engine": "fake", "bus": bus, "drain_s": 1, **engines}
    talking, vocoding = TalkerSettings(**common), VocoderSettings(**common)
    at = GatewaySettings(port=0, bus=bus, drain_s=1, **gateway)
    found = {
        "talker": Service("talker", talking),
        "vocoder": Service("vocoder", vocoding),
        "gateway": Service("gateway", at),
    }
    mains = {
        "talker": lambda one: talker.service.serve(one, talking),
        "vocoder": lambda one: vocoder.service.serve(one, vocoding),
        "gateway": lambda one: serve_gateway(one, at),
    }
    running = [asyncio.create_task(found[name].run(main)) for name, main in mains.items()]
    try:
        async with asyncio.timeout(TIMEOUT_S):
            while any("admin" not in one.ports or not one.ready().ok for one in found.values()):
                await asyncio.sleep(0.02)
        yield found
    finally:
        for service in found.values():
            service.stop()
        await asyncio.gather(*running)


def url(found: Mapping[str, Service]) -> str:
    """Of the gateway."""
    return f"http://127.0.0.1:{found['gateway'].ports['http']}"
