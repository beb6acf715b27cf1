"""Several models in one talker's and one vocoder's process: each is loaded for its own jobs."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

import talker.service
import vocoder.service
from antiphon.client import Audio, Finished, SpeechOptions, speak
from antiphon.say import whole
from antiphon.stack import LocalStack
from talker.settings import TalkerSettings
from tests.in_process import services, url
from tests.waits import TIMEOUT_S
from ttscommon.engine.hub import CheckpointError
from ttscommon.process.metrics import Metrics
from ttscommon.process.service import Service
from ttsfamilies.piper.synthetic import write_family

TEXT = "Twenty characters..." * 4
NAMES = ("amy", "bob")
MODELS = tuple({"model": name} for name in NAMES)


@dataclass
class Engines:
    """Those that the two processes made, in order, by stage and model; `broken` ones fail."""

    made: list[tuple[str, str, Any]]
    broken: set[str]

    def names(self, stage: str) -> list[str]:
        return [model for of, model, _ in self.made if of == stage]

    def latest(self, stage: str, model: str) -> Any:
        return [one for of, name, one in self.made if (of, name) == (stage, model)][-1]


@dataclass
class Standing:
    url: str
    engines: Engines
    services: dict[str, Service]

    async def models(self) -> dict[str, Any]:
        """The list of models, by name."""
        async with httpx.AsyncClient(base_url=self.url, verify=False) as client:
            listed = (await client.get("/v1/models")).json()["data"]
        return {one["id"]: one for one in listed}

    async def until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The list of models, once it is so."""
        async with asyncio.timeout(TIMEOUT_S):
            while not holds(found := await self.models()):
                await asyncio.sleep(0.05)
        return found

    async def metric(self, stage: str, name: str, model: str) -> float:
        """Of a process's page."""
        port = self.services[stage].ports["admin"]
        async with httpx.AsyncClient(verify=False) as client:
            page = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
        wanted = f'{name}{{model="{model}",stage="{stage}"}} '
        return next(float(line.split()[-1]) for line in page.splitlines() if wanted in line)


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Engines:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = Engines([], set())

    def recorded(stage: str, build: Any) -> Any:
        def built(settings: Any, metrics: Metrics, **kw: Any) -> Any:
            name = settings.model
            if name in found.broken:
                raise CheckpointError(f"{name} has no weights")
            found.made.append((stage, name, build(settings, metrics, **kw)))
            return found.made[-1][2]

        return built

    for stage, module in (("talker", talker.service), ("vocoder", vocoder.service)):
        monkeypatch.setattr(module, "build_engine", recorded(stage, module.build_engine))
    return found


@asynccontextmanager
async def standing(
    broker: LocalStack, engines: Engines, **settings: Any
) -> AsyncIterator[Standing]:
    """A gateway, and one process of each stage for all models."""
    told: dict[str, Any] = {"models": MODELS, **settings}
    async with services(broker.bus, told, {"admission": "off"}) as found:
        stand = Standing(url(found), engines, found)
        expected = {one["model"] for one in told["models"]} - engines.broken
        await stand.until(lambda found: found.keys() >= expected)
        yield stand


async def said(stand: Standing, model: str, on_audio: Callable[[], object] = lambda: None) -> bytes:
    """The sound of TEXT, the same in every model; `on_audio` hears of every piece."""
    pcm = b""
    options = SpeechOptions(model=model, voice="slt", seed=7)
    async with asyncio.timeout(TIMEOUT_S):
        async for event in speak(stand.url, whole(TEXT), options):
            if isinstance(event, Audio):
                pcm += event.pcm
                on_audio()
            elif isinstance(event, Finished):
                assert event.outcome == "ok"
    return pcm


async def test_models_have_engines_of_their_own_and_one_that_dies_ends_no_stream(
    broker: LocalStack, engines: Engines
) -> None:
    async with standing(broker, engines) as stand:
        whole_sound = await said(stand, "amy")
        assert len(whole_sound) > 48_000
        assert sorted(engines.names("talker")) == sorted(engines.names("vocoder")) == list(NAMES)
        assert await stand.metric("talker", "tts_model_loads_total", "amy") == 1
        assert await stand.metric("vocoder", "tts_model_loads_total", "bob") == 1
        victims = [engines.latest(stage, "amy") for stage in ("vocoder", "talker")]
        other = [engines.latest(stage, "bob") for stage in ("talker", "vocoder")]

        def kill() -> None:
            if victims:
                victims.pop()._put(partial(_raise, MemoryError("of one model")))

        taken_over, untouched = await asyncio.gather(said(stand, "amy", kill), said(stand, "bob"))
        assert taken_over == untouched == whole_sound
        assert [engines.latest(stage, "bob") for stage in ("talker", "vocoder")] == other
        assert await stand.metric("talker", "tts_model_crashes_total", "bob") == 0
        crashes = [
            await stand.metric(stage, "tts_model_crashes_total", "amy")
            for stage in ("talker", "vocoder")
        ]
        assert sum(crashes) == 2 - len(victims) >= 1


def _raise(error: BaseException) -> None:
    raise error


async def test_a_model_is_loaded_for_its_jobs_unloaded_when_idle_and_left_out_where_it_fails(
    broker: LocalStack, engines: Engines
) -> None:
    engines.broken.add("amy")
    async with standing(broker, engines) as stand:
        assert "amy" not in await stand.models()
        assert stand.services["talker"].left_out == {"amy": "amy has no weights"}
        whole_sound = await said(stand, "bob")
    engines.broken.clear()
    engines.made.clear()
    async with standing(broker, engines, model_idle_s=1.0) as stand:
        # What is known of before takes jobs, and is loaded for the first of them.
        assert not (await stand.models())["bob"]["loaded"]
        assert "bob" not in engines.names("talker") + engines.names("vocoder")
        assert await said(stand, "bob") == whole_sound
        for stage in ("talker", "vocoder"):
            assert engines.names(stage).count("bob") == 1
        await stand.until(lambda found: not (found["bob"]["loaded"] or found["amy"]["loaded"]))
        assert await stand.metric("talker", "tts_model_bytes", "bob") == 0
        assert await said(stand, "bob") == whole_sound
        assert engines.names("talker").count("bob") == 2
        engines.broken.add("amy")
        async with httpx.AsyncClient(base_url=stand.url, timeout=TIMEOUT_S) as client:
            body = {"input": "Hello.", "model": "amy"}
            response = await client.post("/v1/audio/speech", json=body)
        assert response.status_code == 503
        assert response.json()["error"]["message"] == "the model 'amy' cannot be loaded"
        assert await said(stand, "bob") == whole_sound


async def test_real_voices_tell_what_they_take_of_memory_and_give_it_back(
    broker: LocalStack, engines: Engines, tmp_path: Path
) -> None:
    write_family(tmp_path / "amy", "tiny", "", 0)
    models = ({"model": "amy", "voice_dir": tmp_path / "amy"},)
    async with standing(broker, engines, engine="torch", models=models, model_idle_s=2.0) as stand:
        async with httpx.AsyncClient(base_url=stand.url, timeout=TIMEOUT_S) as client:
            body = {"input": "Hello there.", "model": "amy", "response_format": "pcm"}
            response = await client.post("/v1/audio/speech", json=body)
        assert response.status_code == 200, response.text
        assert len(response.content) > 1000
        found = await stand.until(lambda found: "memory_bytes" in found["amy"])
        assert found["amy"]["memory_bytes"] > 50_000
        found = await stand.until(lambda found: "memory_bytes" not in found["amy"])
        assert not found["amy"]["loaded"]


def test_json_names_the_models() -> None:
    settings = TalkerSettings.load(
        {"ANTIPHON_MODELS": json.dumps(MODELS), "ANTIPHON_SLOTS": "7", "ANTIPHON_ENGINE": "fake"}
    )
    assert [(one.model, one.slots) for one in settings.each()] == [("amy", 7), ("bob", 7)]
