"""A stack of the families that hear and answer, with weights drawn from a seed."""

import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np

from antiphon.stack import LocalStack, StackConfig
from antiphon.stack.checkpoints import Checkpoint
from tests.native import Client
from tests.stacks import listed, logged, patient
from tests.unit.ttscommon.sound.test_recordings import wav
from ttsfamilies.glm_voice import synthetic as glm_voice
from ttsfamilies.glm_voice.facts import FAMILY as GLM
from ttsfamilies.step_audio2 import synthetic as step_audio2

VOICES: Final[Mapping[str, str]] = {"glm": "glm-4-voice", "step": "anna"}
"""Of each family the one that it speaks with."""
LIMIT_S: Final = 240


def answering(folder: Path) -> StackConfig:
    """A stack of both families, whose answers end where a client has them end."""
    glm_voice.write_checkpoint(folder / "glm", seed=3, ending=0.0)
    glm_voice.write_codec(folder / "glm" / GLM.codec.inside, seed=3)
    step_audio2.write_checkpoint(folder / "step", seed=3, ending=0.0)
    step_audio2.add_codec(folder / "step", seed=3)
    models = [Checkpoint.parse(f"{name}={folder / name}") for name in VOICES]
    return patient(folder / "store", models, {"ANTIPHON_WYOMING_PORT": "0"})


@asynccontextmanager
async def serving(
    name: str, folder: Path, store: Path, **environ: Any
) -> AsyncIterator[LocalStack]:
    """A patient stack of one checkpoint, when it serves it."""
    kept = {"ANTIPHON_KEEP_LOGS_S": "600"}
    config = patient(store, [Checkpoint.parse(f"{name}={folder}")], kept, **environ)
    async with logged(config) as running:
        async with httpx.AsyncClient(base_url=running.url) as client:
            await listed(client, name)
        yield running


async def ready(stack: LocalStack) -> None:
    """All models are served, and Step-Audio 2 has its voice, which is made of a recording."""
    async with httpx.AsyncClient(base_url=stack.url, timeout=LIMIT_S) as client:
        await listed(client, *VOICES)
        sample = {"audio_sample": ("anna.wav", wav(1.5), "audio/wav")}
        told = {"name": VOICES["step"], "consent": "Yes."}
        made = await client.post("/v1/audio/voices", files=sample, data=told)
        assert made.status_code == 200, made.text


async def answered(
    stack: LocalStack, *victims: str, speech: bytes, **config: Any
) -> tuple[Any, str]:
    """[samples] int and the words of an answer; the victims are killed, one after each piece of
    sound. Every character comes once.
    """
    async with await Client.opened(stack.url, LIMIT_S) as client:
        await client.send("session.config", **config)
        await client.send("input.speech", audio=base64.b64encode(speech).decode())
        await client.send("input.done")
        for victim in victims:
            await client.until("audio")
            stack.children[victim].kill()
        done = await client.until("audio.done")
    assert done["outcome"] == "ok"
    words = ""
    for told in client.told:
        if told["type"] == "audio.transcript":
            assert told["start"] == len(words)
            words += told["text"]
    return np.frombuffer(client.pcm, "<i2").astype(int), words
