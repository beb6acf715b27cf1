"""compose.yaml as an operator meets it: built from the checkout, spoken to, broken."""

import asyncio
import json
import re
import wave
from collections.abc import AsyncIterator
from io import BytesIO

import httpx
import numpy as np
import pytest

from tests.deploy.engine import ComposeStack, deployed, docker
from tests.deploy.observe import filled
from tools.dashboards import DASHBOARDS

pytestmark = deployed

SENTENCE = "The tide is coming in, and the boats along the quay begin to lift and turn."
LONG = " ".join([SENTENCE] * 6)


async def speak(url: str, text: str, seed: int = 7) -> bytes:
    """The PCM of `text`, as a client of the HTTP endpoint gets it."""
    async with httpx.AsyncClient(timeout=60) as http:
        body = {"input": text, "seed": seed, "response_format": "wav"}
        body |= {"stream": False, "sample_rate": 24_000}
        response = await http.post(f"{url}/v1/audio/speech", json=body)
        response.raise_for_status()
        with wave.open(BytesIO(response.content)) as sound:
            frames: bytes = sound.readframes(sound.getnframes())
            return frames


async def stream(url: str, text: str, seed: int = 7) -> AsyncIterator[bytes]:
    """The PCM of `text` as it comes."""
    body = {"input": text, "seed": seed, "response_format": "pcm"}
    body["sample_rate"] = 24_000
    async with (
        httpx.AsyncClient(timeout=60) as http,
        http.stream("POST", f"{url}/v1/audio/speech", json=body) as response,
    ):
        response.raise_for_status()
        async for part in response.aiter_raw():
            yield part


def active(stack: ComposeStack, container: str) -> float:
    """Streams in work at an engine's container, of all its stages."""
    found = re.findall(r"^tts_active_streams\{.*\} (\S+)$", stack.metrics(container), re.MULTILINE)
    return sum(map(float, found))


async def test_a_sentence_comes_back_as_sound_over_http(compose: ComposeStack) -> None:
    sound = await speak(compose.url, SENTENCE)
    assert len(sound) > 2 * 24_000
    assert np.abs(np.frombuffer(sound, "<i2")).max() > 1000


@pytest.mark.parametrize("stage", ["talker", "vocoder"])
async def test_an_engines_container_killed_in_mid_sentence_leaves_no_gap_in_the_sound(
    compose: ComposeStack, stage: str
) -> None:
    await killed_in_mid_sentence(compose, stage)
    compose.scale(**{stage: 2})


async def killed_in_mid_sentence(stack: ComposeStack, service: str) -> None:
    """The container of a service that works ends, and the sound is that of an undisturbed run."""
    undisturbed = np.frombuffer(await speak(stack.url, LONG), "<i2")
    heard, killed = b"", None
    async for part in stream(stack.url, LONG):
        heard += part
        if killed is None:
            # A pair may be the talker, and another one the vocoder of the same request.
            killed = next(c for c in stack.containers(service) if active(stack, c))
            docker("kill", killed)
    assert killed is not None
    sound = np.frombuffer(heard, "<i2")
    assert len(sound) == len(undisturbed)
    assert np.abs(sound.astype(int) - undisturbed).max() <= 1


async def test_prometheus_sees_every_container_and_what_was_spoken(compose: ComposeStack) -> None:
    await speak(compose.url, SENTENCE)
    everybody = {"gateway": 1.0, "talker": 2.0, "vocoder": 2.0}
    async with httpx.AsyncClient(base_url=compose.prometheus) as client:
        async with asyncio.timeout(60):  # containers are looked up and scraped every five seconds
            while await by_service(client, "count by (service) (up == 1)") != everybody:
                await asyncio.sleep(0.5)
        for dashboard in DASHBOARDS:
            for panel in dashboard.panels:
                for query in panel.queries.values():
                    response = await client.get("/api/v1/query", params={"query": filled(query)})
                    assert response.json()["status"] == "success", query
        assert (await client.get("/api/v1/rules")).json()["data"]["groups"]


async def by_service(client: httpx.AsyncClient, query: str) -> dict[str, float]:
    """The values of a query now."""
    response = await client.get("/api/v1/query", params={"query": query})
    return {
        one["metric"].get("service", ""): float(one["value"][1])
        for one in response.json()["data"]["result"]
    }


async def test_one_trace_passes_through_all_containers(compose: ComposeStack) -> None:
    await speak(compose.url, SENTENCE)
    through = {"antiphon-gateway", "antiphon-talker", "antiphon-vocoder"}

    def services() -> list[set[str]]:
        spans = list(compose.traces.spans)
        traces = {span.trace_id for span in spans}
        return [{s.service for s in spans if s.trace_id == trace} for trace in traces]

    async with asyncio.timeout(30):
        while through not in services():
            await asyncio.sleep(0.5)


@pytest.mark.parametrize("service", ["gateway", "talker", "vocoder"])
def test_a_service_runs_as_nobody_on_a_root_it_cannot_write(
    compose: ComposeStack, service: str
) -> None:
    for container in compose.containers(service):
        state = json.loads(docker("inspect", container))[0]
        assert state["Config"]["User"] == "10001:10001"
        assert state["HostConfig"]["ReadonlyRootfs"]
        assert state["HostConfig"]["CapDrop"] == ["ALL"]
        assert docker("exec", container, "id", "-u").strip() == "10001"


IDENTITIES = {
    "gateway": ["password", "resume", "system"],
    "talker": ["password"],
    "vocoder": ["password"],
}


@pytest.mark.parametrize("service", IDENTITIES)
def test_a_service_holds_its_own_password_and_may_do_what_it_does(
    compose: ComposeStack, service: str
) -> None:
    found = set()
    for container in compose.containers(service):
        listed = docker("exec", container, "ls", "/run/antiphon/bus").split()
        assert sorted(listed) == IDENTITIES[service]
        found.add(docker("exec", container, "cat", "/run/antiphon/bus/password"))
        environment = json.loads(docker("inspect", container))[0]["Config"]["Env"]
        assert f"ANTIPHON_BUS__USER={service}" in environment
    assert len(found) == 1
    assert "iolation" not in compose.log("nats")


@pytest.mark.parametrize("service", ["gateway", "talker", "vocoder"])
def test_an_image_lists_what_is_in_it_and_under_which_licences(
    compose: ComposeStack, service: str
) -> None:
    container = compose.containers(service)[0]
    sbom = json.loads(docker("exec", container, "cat", "/usr/share/antiphon/sbom.cdx.json"))
    packages = {part["name"] for part in sbom["components"]}
    assert {f"antiphon-{service}", "nats-py", "libc6"} <= packages
    assert ("torch" in packages) is (service != "gateway")
    licences = docker("exec", container, "cat", "/usr/share/antiphon/LICENSES.txt")
    assert re.search(r"nats-py +\S+ +Apache-2.0", licences)
    if service == "gateway":  # with the mark in the sound, and the two under the LGPL that may ship
        assert "safetensors" in packages
        assert re.search(r"^ *lameenc ", licences, re.MULTILINE)
        assert re.search(r"^ *soxr ", licences, re.MULTILINE)


def test_a_drained_container_ends_by_itself(compose: ComposeStack) -> None:
    victim = compose.containers("talker")[0]
    docker("stop", "--time", "40", victim)
    state = json.loads(docker("inspect", victim))[0]["State"]
    assert state["ExitCode"] == 0
    compose.scale(talker=2)
