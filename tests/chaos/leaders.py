"""Which broker leads what: the victims of faults that are about elections."""

import asyncio

from nats.errors import Error as NatsError

from tests.chaos.stack import connected
from ttscommon.bus.layout import Layout
from ttscommon.process.settings import BusSettings
from ttscommon.wire.subjects import LEASES, LOGS, REPLICAS, STAGES, TOMBSTONES

_MODEL = "vesper"
_STREAMS = [*(stage.stream for stage in STAGES.values()), *(log.stream for log in LOGS)]
_ELECTED_WITHIN_S = 20.0
_ASK_AGAIN_S = 0.2


async def leaders_of(settings: BusSettings) -> dict[str, str]:
    """Broker names by stream or bucket, and by queue ("talk", "voc") for the stages' consumers.

    A cluster that still elects after the fault before answers 503 and is asked again.
    """
    async with asyncio.timeout(_ELECTED_WITHIN_S):
        while True:
            try:
                return await _leaders_of(settings)
            except NatsError:
                await asyncio.sleep(_ASK_AGAIN_S)


async def _leaders_of(settings: BusSettings) -> dict[str, str]:
    async with connected(settings) as bus:
        link, found = bus.link, {}
        streams = {name: link.name(name) for name in _STREAMS}
        buckets = {name: f"KV_{link.name(name)}" for name in (LEASES, REPLICAS, TOMBSTONES)}
        for name, stream in {**streams, **buckets}.items():
            info = await link.jetstream.stream_info(stream)
            found[name] = (info.cluster.leader if info.cluster else None) or ""
        for stage in STAGES.values():
            durable = link.name(stage.durable(_MODEL))
            consumer = await link.jetstream.consumer_info(link.name(stage.stream), durable)
            found[stage.queue] = (consumer.cluster.leader if consumer.cluster else None) or ""
        return found


async def step_down(settings: BusSettings, pause_s: float) -> None:
    """Have every stream, bucket and queue elect another leader, `pause_s` apart."""
    async with connected(settings) as bus:
        link = bus.link
        streams = [name for stream in Layout(settings.prefix).streams() if (name := stream.name)]
        consumers = [
            f"{link.name(stage.stream)}.{link.name(stage.durable(_MODEL))}"
            for stage in STAGES.values()
        ]
        for kind, names in (("STREAM", streams), ("CONSUMER", consumers)):
            for name in names:
                await link.client.publish(f"$JS.API.{kind}.LEADER.STEPDOWN.{name}", b"")
                await asyncio.sleep(pause_s)
