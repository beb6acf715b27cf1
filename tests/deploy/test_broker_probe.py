"""The broker's liveness probe asks for a restart where nothing else lets it write again."""

import asyncio
import resource
from collections.abc import Iterator
from pathlib import Path

import httpx
import nats
import pytest
from nats.js.api import StreamConfig

from tests.deploy.broker import Server
from tests.deploy.chart import example, pods, render

STREAM = "LOG"


def liveness_path() -> str:
    """Where the chart asks whether a broker is alive."""
    pod = next(pod for name, pod in pods(render(example("laptop"))).items() if "nats" in name)
    path: str = pod["spec"]["containers"][0]["livenessProbe"]["httpGet"]["path"]
    return path


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path / "broker")
    yield made
    made.end()


async def test_a_broker_that_cannot_write_fails_its_liveness_probe(server: Server) -> None:
    ports, pid = await server.ports(), server.process.pid
    monitor = f"http://127.0.0.1:{ports['monitoring']}"
    client = await nats.connect(f"nats://127.0.0.1:{ports['nats']}")
    async with httpx.AsyncClient(base_url=monitor) as probe:
        await client.jetstream().add_stream(StreamConfig(name=STREAM, subjects=[STREAM]))
        assert (await probe.get(liveness_path())).status_code == 200
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
        async with asyncio.timeout(20):
            while (await probe.get(liveness_path())).status_code == 200:
                await client.publish(STREAM, b"x" * 5000)
                await asyncio.sleep(0.1)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
        assert (await probe.get(liveness_path())).status_code == 503
    await client.close()
