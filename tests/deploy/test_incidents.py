"""Incidents, each caused: what its page in docs/operations.md tells to look at shows it.

`make test-deploy` runs them.
"""

import asyncio
import contextlib
import datetime
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import nats
import pytest
import trustme
from nats.errors import Error as NatsError
from nats.js.api import StreamConfig

from tests.chaos.listener import listen
from tests.chaos.poisoned_talker import POISON
from tests.chaos.stack import chaos_stack
from tests.deploy.broker import Server, free_ports
from tests.deploy.engine import deployed
from tests.deploy.test_dashboards import RUNBOOKS
from ttscommon.bus import Bus
from ttscommon.bus.export import BrokerMetrics
from ttscommon.process.settings import BusSettings
from ttscommon.wire.errors import AntiphonError

pytestmark = deployed

STREAM: Final = "antiphon-CODES"
_TIMEOUT_S: Final = 60.0


def page(section: str) -> str:
    """A section of the runbooks."""
    text = RUNBOOKS.read_text()
    return text.split(f"### {section}\n", 1)[1].split("\n## ", 1)[0].split("\n### ", 1)[0]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[list[Server]]:
    routes = free_ports(3)
    urls = ", ".join(f'"nats://127.0.0.1:{port}"' for port in routes)
    servers = [
        Server(
            tmp_path / f"broker-{n}",
            f'cluster {{ name: c, listen: "127.0.0.1:{port}", routes: [{urls}] }}\n',
        )
        for n, port in enumerate(routes)
    ]
    yield servers
    for server in servers:
        server.end()


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until the coroutine function `holds` says so."""
    async with asyncio.timeout(_TIMEOUT_S):
        while not await holds():
            await asyncio.sleep(0.2)


async def test_broker_disk_names_the_stream_that_fills_it(tmp_path: Path) -> None:
    metrics = BrokerMetrics()
    with Server(tmp_path / "broker") as server:
        client = await nats.connect(f"nats://127.0.0.1:{(await server.ports())['nats']}")
        jetstream = client.jetstream()
        await jetstream.add_stream(StreamConfig(name=STREAM, subjects=["codes"]))
        with contextlib.suppress(NatsError):  # until it is full
            for _ in range(100):
                await jetstream.publish("codes", b"x" * 100_000)
        await client.close()
        await server.shown(metrics)
    value = metrics.registry.get_sample_value
    used = value("tts_broker_storage_bytes", {"state": "used"}) or 0
    assert used > 0.85 * (value("tts_broker_storage_bytes", {"state": "limit"}) or 0) > 0
    assert value("tts_broker_stream_bytes", {"stream": STREAM, "state": "used"}) == used
    assert "tts_broker_disk_bytes" in page("AntiphonBrokerDisk")


async def test_a_lost_quorum_shows_as_streams_without_a_leader(cluster: Sequence[Server]) -> None:
    urls = [f"nats://127.0.0.1:{(await one.ports())['nats']}" for one in cluster]
    client = await nats.connect(urls[0])
    config = StreamConfig(name=STREAM, subjects=["codes"], num_replicas=3, max_bytes=100_000)

    async def made() -> bool:
        try:
            await client.jetstream().add_stream(config)
        except NatsError:
            return False
        return True

    await until(made)
    metrics = BrokerMetrics()

    async def led(expected: float) -> bool:
        await cluster[0].shown(metrics)
        value = metrics.registry.get_sample_value("tts_broker_leader", {"stream": STREAM})
        return value == expected

    await until(lambda: led(1))
    for other in cluster[1:]:
        other.end()
    await until(lambda: led(0))
    await client.close()
    assert "no leader" in page("AntiphonQuorumLost")


async def test_an_expired_certificate_is_named_by_who_meets_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    authority = trustme.CA()
    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    issued = authority.issue_cert("127.0.0.1", not_after=past)
    for name, blob in (("ca", authority.cert_pem), ("key", issued.private_key_pem)):
        blob.write_to_path(str(tmp_path / f"{name}.pem"))
    (tmp_path / "cert.pem").write_bytes(b"".join(b.bytes() for b in issued.cert_chain_pems))
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    told, said = f'tls {{ cert_file: "{cert}", key_file: "{key}" }}\n', ""
    with Server(tmp_path / "broker", tls=told) as server:
        url = f"tls://127.0.0.1:{(await server.ports())['nats']}"
        settings = BusSettings(urls=(url,), tls_ca=tmp_path / "ca.pem")
        try:
            async with asyncio.timeout(5):
                await Bus.connect(settings, "gateway")
        except (TimeoutError, AntiphonError) as error:
            said = str(error)
    captured = capfd.readouterr()
    assert "certificate has expired" in said + captured.out + captured.err
    assert "certificate has expired" in page("AntiphonBusDown")


async def test_a_poisoned_request_is_named_with_its_tenant(tmp_path: Path) -> None:
    lines: list[str] = []
    stack = chaos_stack(tmp_path, lambda name, line: lines.append(line), poisonous=True)
    async with stack:
        heard = await listen(stack.url, 7, POISON)
    assert heard.outcome != "ok"
    events = [json.loads(line) for line in lines if line.startswith("{")]
    [poison] = [one for one in events if one["event"] == "job.poison"]
    [ended] = [one for one in events if one["event"] == "request.ended"]
    assert poison["request_id"] == ended["request_id"]
    assert {"tenant", "model", "voice"} <= ended.keys()
    for event in ("job.isolated", "job.poison", "request.ended"):
        assert event in page("A poisoned request")
