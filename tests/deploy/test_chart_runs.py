"""The chart's pods run by hand: they may speak, recover and cancel, and no more than that."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec
import nats
import pytest
import pytest_asyncio
from websockets.exceptions import InvalidStatus

from antiphon.client import Audio, SpeechOptions, speak
from antiphon.say import whole
from gateway.requests.kept import NewVoice, VoiceStore
from gateway.requests.tenants import ByteQuota
from tests.adapters import files as adapter
from tests.deploy.chart import example
from tests.deploy.rendered import RunningChart, running
from tests.realtime import opened
from tests.unit.ttscommon.sound.test_recordings import wav
from tests.waits import TIMEOUT_S
from ttscommon.bus import Bus
from ttscommon.bus.backup import back_up, restore
from ttscommon.process.settings import BusSettings
from ttscommon.wire import subjects

SENTENCE: Final = "The tide is coming in, and the boats along the quay begin to lift and turn. "
# What test_permissions.py does not say of the rights, and one of each user.
FORBIDDEN: Final = {
    "talker": ["$KV.antiphon-replicas.vocoder.w", "$JS.API.STREAM.PURGE.antiphon-CODES"],
    "vocoder": ["$KV.antiphon-leases.talker.r"],
    "gateway": ["$KV.antiphon-replicas.talker.w"],
    "backup": [
        "antiphon.job.talk.vesper.r",
        "$KV.antiphon-voices.owner.voice",
        "$JS.API.DIRECT.GET.KV_antiphon-voices",
        "$JS.API.STREAM.SNAPSHOT.antiphon-CODES",
        "$JS.API.STREAM.RESTORE.KV_antiphon-voices",
        "$JS.API.STREAM.DELETE.KV_antiphon-voices",
    ],
    "setup": ["antiphon.job.talk.vesper.r"],
    "system": ["$SYS.REQ.SERVER.PING", "$SYS.REQ.SERVER.X.RELOAD"],
}
ENGINES: Final = {"engine": "fake", "replicas": 2}
WEIGHTS: Final = {"image": "antiphon-voices", "path": "vesper"}
# One model has pods of its own for each stage, the other one process for both.
VALUES: Final[dict[str, Any]] = {
    **example("laptop"),
    "models": [
        {"name": "vesper", "weights": WEIGHTS},
        {"name": "paired", "weights": WEIGHTS, "paired": True},
    ],
    "talker": ENGINES,
    "vocoder": ENGINES,
    "pair": {"engine": "fake"},
    "gateway": {**example("laptop")["gateway"], "settings": {"max_adapters": 1}},
}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chart(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningChart]:
    """Started once: what a test kills comes back by itself."""
    async with running(VALUES, tmp_path_factory.mktemp("chart")) as running_chart:
        yield running_chart


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def recovered(chart: RunningChart) -> None:
    """Every pod works before a test begins."""
    async with asyncio.timeout(60):
        for child in chart.children.values():
            await child.ready.wait()


def violations(chart: RunningChart) -> list[str]:
    """What the broker refused."""
    return [line for line in chart.log if "iolation" in line]


@pytest.mark.slow
async def test_the_rendered_pods_speak_recover_and_cancel_with_the_rights_they_have(
    chart: RunningChart,
) -> None:
    text, options = whole(SENTENCE * 4), SpeechOptions(seed=7)
    before = b"".join(
        [e.pcm async for e in speak(chart.url, text, options) if isinstance(e, Audio)]
    )
    after, killed = b"", False
    async for event in speak(chart.url, whole(SENTENCE * 4), options):
        if isinstance(event, Audio):
            after += event.pcm
            if not killed:
                chart.children["talker-1"].kill()
                chart.children["vocoder-2"].kill()
                killed = True
    assert after == before
    async with httpx.AsyncClient(base_url=chart.url, timeout=10) as http:
        body = {"input": SENTENCE * 40, "response_format": "pcm"}
        async with http.stream("POST", "/v1/audio/speech", json=body) as response:
            async for _ in response.aiter_raw():
                break  # leaving cancels both stages
        assert (await http.get("/v1/audio/voices")).json()["voices"]
    assert violations(chart) == []


async def test_a_pair_speaks_with_the_rights_of_both_stages(chart: RunningChart) -> None:
    async with httpx.AsyncClient(base_url=chart.url, timeout=60) as http:
        body = {"model": "paired", "input": SENTENCE, "response_format": "pcm"}
        async with asyncio.timeout(60):
            while (await http.post("/v1/audio/speech", json=body)).status_code == 404:
                await asyncio.sleep(0.1)  # gateways look once a second
        assert (await http.post("/v1/audio/speech", json=body)).status_code == 200
    assert violations(chart) == []


async def test_what_clients_leave_is_kept_with_the_rights_of_a_gateway(
    chart: RunningChart,
) -> None:
    async with httpx.AsyncClient(base_url=chart.url, timeout=TIMEOUT_S) as http:
        entries = [{"grapheme": "quay", "alias": "key"}]
        lexicon = {"name": "sea", "language": "en-US", "entries": entries}
        assert (await http.post("/v1/audio/lexicons", json=lexicon)).is_success
        content = adapter({"layers.0.q_proj": (8, 8)})
        parts = {"adapter_config": content.config, "adapter_model": content.weights}
        added = await http.post("/v1/audio/adapters", data={"name": "mine"}, files=parts)
        assert added.is_success, added.text
        assert len(await spoken_as_a_job(http, {"input": SENTENCE, "lexicons": ["sea"]})) > 10_000
        for path in ("lexicons/sea", "adapters/mine"):
            assert (await http.delete(f"/v1/audio/{path}")).is_success
    async with opened(chart.url, "&resumable=true") as client:
        session = client.events[0]["session"]["id"]
        await client.say(SENTENCE)
        await client.send("response.create")
        await client.until("response.done")
        client.socket.transport.abort()
    await gone_on_with(chart.url, session)
    assert violations(chart) == []


async def gone_on_with(url: str, session: str) -> None:
    """The broken connection has to be noticed, and the session to be stored."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            with contextlib.suppress(InvalidStatus):
                async with opened(url, f"&session={session}") as client:
                    assert client.events[0]["session"]["id"] == session
                    return
            await asyncio.sleep(0.1)


async def spoken_as_a_job(http: httpx.AsyncClient, order: dict[str, Any]) -> bytes:
    """Its sound; the job is removed."""
    job = (await http.post("/v1/audio/jobs", json=order)).json()
    path = f"/v1/audio/jobs/{job['id']}"
    async with asyncio.timeout(TIMEOUT_S):
        while job["status"] in ("queued", "running"):
            await asyncio.sleep(0.1)
            job = (await http.get(path)).json()
    assert job["status"] == "done", job
    sound = (await http.get(f"{path}/audio")).content
    assert (await http.delete(path)).is_success
    return sound


async def test_a_service_may_not_speak_for_another(tmp_path: Path) -> None:
    async with running(VALUES, tmp_path, services=False) as chart:
        allowed = [
            f"{user} may publish {subject}"
            for user, subjects in FORBIDDEN.items()
            for subject in subjects
            if not await is_refused(chart, user, subject)
        ]
    assert allowed == []


async def is_refused(chart: RunningChart, user: str, subject: str) -> bool:
    """Whether the broker refuses what `user` publishes."""
    refused = asyncio.Event()

    async def on_error(error: Exception) -> None:
        if "permissions violation" in str(error).lower():
            refused.set()

    client = await nats.connect(
        chart.bus_url, user=user, password=chart.password(user), error_cb=on_error
    )
    try:
        await client.publish(subject, b"")
        async with asyncio.timeout(5):
            await refused.wait()
    except TimeoutError:
        return False
    finally:
        await client.close()
    return True


async def test_voices_come_back_after_the_brokers_volume_is_lost(
    chart: RunningChart, tmp_path: Path
) -> None:
    backups, folder = tmp_path / "backups", tmp_path / "new"
    folder.mkdir()
    before = await voices_of(await with_voice(chart))
    await back_up(as_user(chart, "backup"), backups)
    assert violations(chart) == []
    async with running(VALUES, folder, services=False) as new:
        assert await voices_of(new) == []
        await restore(as_user(new, "setup"), backups)
        assert await voices_of(new) == before != []
        assert violations(new) == []


def as_user(chart: RunningChart, user: str) -> BusSettings:
    return BusSettings(urls=(chart.bus_url,), user=user, password=chart.password(user))


async def with_voice(chart: RunningChart) -> RunningChart:
    """With a voice made of a recording of a second, as a gateway stores it: the models clone none,
    so that its route refuses it.
    """
    bus = await Bus.connect(as_user(chart, "gateway"), "gateway")
    try:
        voices = VoiceStore(bus, 9, ByteQuota(1, 60.0))
        await voices.add("", NewVoice("maria", wav(1.0), "I agree."))
    finally:
        await bus.close()
    return chart


async def voices_of(chart: RunningChart) -> list[str]:
    """Voices that clients made, as a gateway lists them, and their recordings as a talker does."""
    gateway = await Bus.connect(as_user(chart, "gateway"), "gateway")
    talker = await Bus.connect(as_user(chart, "talker"), "talker")
    try:
        found = []
        for key, record in sorted((await gateway.kv.all(subjects.VOICES)).items()):
            name = msgspec.json.decode(record)["recording"]
            data = await talker.objects.get(subjects.RECORDINGS, name)
            found.append(f"{key} {hashlib.sha256(data or b'').hexdigest()}")
        return found
    finally:
        await gateway.close()
        await talker.close()


@pytest.mark.slow
async def test_the_system_user_hears_disconnects(chart: RunningChart) -> None:
    client = await nats.connect(chart.bus_url, user="system", password=chart.password("system"))
    heard = await client.subscribe("$SYS.ACCOUNT.*.DISCONNECT")
    await client.flush()
    chart.children["vocoder-1"].kill()
    await heard.next_msg(timeout=TIMEOUT_S)
    await client.close()
