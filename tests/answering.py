"""A stack of the families that hear and answer, with weights drawn from a seed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import httpx

from antiphon.stack import LocalStack, StackConfig
from antiphon.stack.checkpoints import Checkpoint
from tests.pipeline.test_checkpoints import models
from tests.unit.ttscommon.sound.test_recordings import wav
from ttsfamilies.glm_voice import synthetic as glm_voice
from ttsfamilies.glm_voice.facts import FAMILY as GLM
from ttsfamilies.step_audio2 import synthetic as step_audio2

VOICES: Final[Mapping[str, str]] = {"glm": "glm-4-voice", "step": "anna"}
"""Of each family the one that it speaks with."""
LIMIT_S: Final = 240


def write_answering(folder: Path) -> list[Checkpoint]:
    """Both families, whose answers end where a client has them end."""
    glm_voice.write_checkpoint(folder / "glm", seed=3, ending=0.0)
    glm_voice.write_codec(folder / "glm" / GLM.codec.inside, seed=3)
    step_audio2.write_checkpoint(folder / "step", seed=3, ending=0.0)
    step_audio2.add_codec(folder / "step", seed=3)
    return [Checkpoint.parse(f"{name}={folder / name}") for name in VOICES]


def answering(folder: Path) -> StackConfig:
    """A stack of them beside the default voice, patient with a machine that is slow."""
    patient = {"ANTIPHON_FIRST_AUDIO_TIMEOUT_S": "120", "ANTIPHON_STALL_TIMEOUT_S": "120"}
    patient |= {"ANTIPHON_ADMISSION": "off", "ANTIPHON_WYOMING_PORT": "0"}
    small = {"ANTIPHON_BATCH_STREAMS": "4", "ANTIPHON_BATCH_FRAMES": "32"}
    return StackConfig(
        port=0,
        store=folder / "store",
        models=tuple(write_answering(folder)),
        environ={"gateway": patient, "vocoder": small},
        start_timeout_s=300.0,
    )


async def ready(stack: LocalStack) -> None:
    """All models are served, and Step-Audio 2 has its voice, which is made of a recording."""
    async with httpx.AsyncClient(base_url=stack.url, timeout=LIMIT_S) as client:
        async with asyncio.timeout(60):
            while await models(client) != {"vesper", *VOICES}:
                await asyncio.sleep(0.05)  # gateways look once a second
        sample = {"audio_sample": ("anna.wav", wav(1.5), "audio/wav")}
        told = {"name": VOICES["step"], "consent": "Yes."}
        made = await client.post("/v1/audio/voices", files=sample, data=told)
    assert made.status_code == 200, made.text
