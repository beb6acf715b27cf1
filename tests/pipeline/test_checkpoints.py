"""Published checkpoints next to the default voice in one stack, with everything that may happen."""

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch

from antiphon.client import Audio, Finished, SpeechOptions, speak
from antiphon.say import whole
from antiphon.stack import LocalStack
from antiphon.stack.checkpoints import Checkpoint
from talker.engine.engine import Engine
from talker.synthesis import synthesise
from tests.stacks import listed, logged, patient
from tests.unit.ttscommon.sound.test_recordings import wav
from ttscommon.process.metrics import Metrics
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Work
from ttsfamilies.codecs import load as load_codec
from ttsfamilies.qwen3_tts.synthetic import write_checkpoint
from ttsfamilies.talkers import load as load_talker
from vocoder.pcm import to_pcm

TEXT = "It's the end of the world, and you're singing to the user: how odd!"
SEED = 16
TALKER, VOCODER = "talker-tiny-1", "vocoder-tiny-1"


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two that share a codec."""
    folder = tmp_path_factory.mktemp("checkpoints")
    write_checkpoint(folder / "tiny", "tiny", "custom_voice", seed=5, ending=5.0)
    write_checkpoint(folder / "clone", "tiny", "base", seed=5, ending=5.0)
    return {name: folder / name for name in ("tiny", "clone")}


@pytest.fixture
async def served(checkpoints: dict[str, Path], tmp_path: Path) -> AsyncIterator[LocalStack]:
    models = [Checkpoint.parse(f"{name}={path}") for name, path in checkpoints.items()]
    async with logged(patient(tmp_path / "store", models, {})) as running:
        yield running


def offline(checkpoint: Path) -> Any:
    """[samples] int16 of TEXT, without a stack."""
    torch.set_num_threads(1)
    engine = Engine(load_talker("tiny", checkpoint), slots=1, blocks=256, metrics=Metrics())
    request = SpeechRequest("r", "tiny", "vivian", TEXT, language="mul", seed=SEED)
    (spoken,) = synthesise(engine, [request])
    codec = load_codec("tiny", checkpoint)
    work = Work(codec.open(request), {"codes": spoken.arrays["codes"]}, final=True)
    return to_pcm(codec.decode([work])[0])


async def posted(client: httpx.AsyncClient, **body: Any) -> Any:
    """[samples] int16 of a request over HTTP, at the model's rate."""
    whole_body = {"input": TEXT, "model": "tiny", "voice": "vivian", "seed": SEED} | body
    # Weights drawn from a seed loop rightly.
    whole_body = {"response_format": "pcm", "runaway_guard": False} | whole_body
    response = await client.post("/v1/audio/speech", json=whole_body)
    assert response.status_code == 200, response.text
    return np.frombuffer(response.content, "<i2")


def near(one: Any, other: Any) -> bool:
    """The same to one int16 step."""
    return len(one) == len(other) and int(np.abs(one.astype(int) - other).max()) <= 1


async def spoken(
    stack: LocalStack,
    *victims: str,
    model: str = "tiny",
    voice: str = "vivian",
    text: str = TEXT,
    **more: Any,
) -> Any:
    """[samples] int16 over the socket; the victims are killed, one after each piece of sound."""
    options = SpeechOptions(model=model, voice=voice, seed=SEED, runaway_guard=False, **more)
    left = list(victims)
    pcm = b""
    async for event in speak(stack.url, whole(text), options):
        if isinstance(event, Audio):
            pcm += event.pcm
            if left:
                stack.children[left.pop(0)].kill()
        elif isinstance(event, Finished):
            assert event.outcome == "ok"
    return np.frombuffer(pcm, "<i2")


@pytest.mark.slow
async def test_checkpoints_are_served_next_to_the_default_voice_whoever_dies(
    served: LocalStack, checkpoints: dict[str, Path]
) -> None:
    assert {name for name in served.children if name.startswith("vocoder")} == {
        "vocoder-1",
        VOCODER,
    }
    async with httpx.AsyncClient(base_url=served.url, timeout=180) as client:
        await listed(client, "clone", "tiny")
        alone = await posted(client)
        assert near(alone, await asyncio.to_thread(offline, checkpoints["tiny"]))
        undisturbed = await spoken(served)
        assert len(undisturbed) > 24_000
        assert near(undisturbed, await spoken(served, TALKER, VOCODER))
        paused = f'<break time="4s"/> {TEXT} <break time="1s"/>'
        silent = await spoken(served, TALKER, VOCODER, text=paused)  # both die in the first pause
        assert not silent[: 4 * 24_000].any()
        assert near(silent[4 * 24_000 : 4 * 24_000 + len(undisturbed)], undisturbed)
        assert len(silent) - len(undisturbed) == (50 + 12) * 1920
        assert not silent[4 * 24_000 + len(undisturbed) :].any()
        assert len(await posted(client, model="vesper", voice="vesper")) > 16_000
        await voices_are_cloned(served, client)


async def voices_are_cloned(stack: LocalStack, client: httpx.AsyncClient) -> None:
    """By a stored voice, by a recording in the request; the same after the talker died."""
    upload = {"name": "anna", "consent": "I, Anna, agree.", "ref_text": "the user is odd"}
    sample = {"audio_sample": ("anna.wav", wav(1.5), "audio/wav")}
    made = await client.post("/v1/audio/voices", data=upload, files=sample)
    assert made.status_code == 200, made.text
    (listed,) = (await client.get("/v1/audio/voices")).json()["uploaded_voices"]
    assert (listed["name"], listed["duration_s"]) == ("anna", 1.5)
    stored = await posted(client, model="clone", voice="anna")
    disturbed = await spoken(stack, "talker-clone-1", VOCODER, model="clone", voice="anna")
    assert near(disturbed, stored)
    inline = base64.b64encode(wav(1.5)).decode()
    sent = await posted(
        client, model="clone", voice="default", ref_audio=inline, ref_text=upload["ref_text"]
    )
    assert near(stored, sent)
    alone = await posted(client, model="clone", voice="anna", x_vector_only_mode=True)
    assert len(alone) != len(stored) or not near(alone, stored)
    assert (await client.delete("/v1/audio/voices/anna")).status_code == 200
    gone = {"input": TEXT, "model": "clone", "voice": "anna"}
    assert (await client.post("/v1/audio/speech", json=gone)).json()["error"][
        "code"
    ] == "unknown_voice"
