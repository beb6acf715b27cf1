"""The admin port answers probes, a container's health check and metrics, and nothing else."""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest
from prometheus_client import Counter

from ttscommon.process import admin
from ttscommon.process.admin import AdminServer, Health
from ttscommon.process.metrics import GatewayMetrics
from ttscommon.process.probe import healthy


class Probes:
    """What the probes of the server under test say."""

    live = Health()
    ready = Health(("starting",))


@pytest.fixture
async def port() -> AsyncIterator[int]:
    server = AdminServer(lambda: Probes.live, lambda: Probes.ready)
    Counter("things", "Things.", registry=server.registry).inc(3)
    yield await server.start("127.0.0.1", 0)
    await server.close()


@pytest.fixture
async def client(port: int) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        yield client


async def raw(port: int, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_a_green_probe_is_200_and_a_red_one_503_with_why(client: httpx.AsyncClient) -> None:
    for path, status, body in (
        ("/livez", 200, {"ok": True, "problems": []}),
        ("/readyz", 503, {"ok": False, "problems": ["starting"]}),
    ):
        response = await client.get(path)
        assert (response.status_code, response.json()) == (status, body)


async def test_metrics_are_text_or_open_metrics_as_is_asked_for(client: httpx.AsyncClient) -> None:
    plain = await client.get("/metrics")
    assert "things_total 3.0" in plain.text
    assert plain.headers["content-type"].startswith("text/plain")
    accept = {"accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"}
    response = await client.get("/metrics", headers=accept)
    assert response.headers["content-type"].startswith("application/openmetrics-text")
    assert response.text.endswith("# EOF\n")


async def test_a_page_that_takes_long_to_write_comes_all_the_same(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "_TIMEOUT_S", 0.2)
    monkeypatch.setattr(admin, "_PAUSE_S", 0.5)
    assert "things_total 3.0" in (await client.get("/metrics")).text


async def test_head_has_no_body_and_a_query_does_not_matter(client: httpx.AsyncClient) -> None:
    response = await client.head("/livez?full=1")
    assert (response.status_code, response.content) == (200, b"")


async def test_other_paths_and_methods_are_refused(client: httpx.AsyncClient) -> None:
    assert (await client.get("/")).status_code == 404
    assert (await client.post("/livez")).status_code == 405


async def test_garbage_is_refused_and_ends_nothing(port: int, client: httpx.AsyncClient) -> None:
    assert (await raw(port, b"\x00\xff\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
    assert await raw(port, b"GET /livez" + b"x" * 100_000) == b""
    assert json.loads((await client.get("/livez")).content)["ok"]


async def test_the_event_loop_turns_while_a_large_page_is_written() -> None:
    metrics = GatewayMetrics(most_tenants=1000)
    metrics.expect("vesper", [f"tenant-{n}" for n in range(1000)])
    server = AdminServer(lambda: Probes.live, lambda: Probes.ready)
    server.registry = metrics.registry
    port = await server.start("127.0.0.1", 0)
    scrape = asyncio.create_task(raw(port, b"GET /metrics HTTP/1.1\r\n\r\n"))
    turns = 0
    while not scrape.done():
        turns += 1
        await asyncio.sleep(0.001)
    await server.close()
    assert (await scrape).count(b"tts_characters_total") > 1000
    assert turns > 30


async def test_a_container_is_as_healthy_as_its_port_says(port: int, unused_tcp_port: int) -> None:
    assert await asyncio.to_thread(healthy, "livez", port)
    assert not await asyncio.to_thread(healthy, "readyz", port)
    assert not await asyncio.to_thread(healthy, "livez", unused_tcp_port)
