"""The broker's liveness probe asks for a restart where nothing else lets it write again."""

import asyncio
import json
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import nats
import pytest
from nats.js.api import StreamConfig

from antiphon.stack.broker import find_server
from tests.deploy.chart import example, pods, render

STREAM = "LOG"
CONFIGURATION = """\
listen: "127.0.0.1:-1"
http: "127.0.0.1:-1"
ports_file_dir: {folder}
jetstream {{ store_dir: {folder} }}
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    path = tmp_path / "nats.conf"
    path.write_text(CONFIGURATION.format(folder=json.dumps(str(tmp_path))))
    process = subprocess.Popen([find_server(), "--config", str(path)], stderr=subprocess.DEVNULL)
    yield process
    process.kill()
    process.wait()


async def ports(process: subprocess.Popen[bytes], folder: Path) -> dict[str, list[str]]:
    path = folder / f"nats-server_{process.pid}.ports"
    async with asyncio.timeout(20):
        while True:
            try:
                found: dict[str, list[str]] = json.loads(path.read_text())
                return found
            except (OSError, ValueError):
                await asyncio.sleep(0.02)


def liveness_path() -> str:
    """Where the chart asks whether a broker is alive."""
    pod = next(pod for name, pod in pods(render(example("laptop"))).items() if "nats" in name)
    path: str = pod["spec"]["containers"][0]["livenessProbe"]["httpGet"]["path"]
    return path


async def test_a_broker_that_cannot_write_fails_its_liveness_probe(
    server: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    found = await ports(server, tmp_path)
    monitor = f"http://127.0.0.1:{urlsplit(found['monitoring'][0]).port}"
    client = await nats.connect(found["nats"][0])
    async with httpx.AsyncClient(base_url=monitor) as probe:
        await client.jetstream().add_stream(StreamConfig(name=STREAM, subjects=[STREAM]))
        assert (await probe.get(liveness_path())).status_code == 200
        _, hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (0, hard))
        async with asyncio.timeout(20):
            while (await probe.get(liveness_path())).status_code == 200:
                await client.publish(STREAM, b"x" * 5000)
                await asyncio.sleep(0.1)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (hard, hard))
        assert (await probe.get(liveness_path())).status_code == 503
    await client.close()
