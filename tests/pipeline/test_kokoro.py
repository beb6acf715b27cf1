"""Kokoro next to the default voice, in segments and with a blend; both stages are killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch

from antiphon.stack import LocalStack, StackConfig
from antiphon.stack.checkpoints import Checkpoint
from antiphon_bench.synthetic.kokoro import write_checkpoint
from talker.engine.engine import Engine
from talker.models import load as load_talker
from talker.models.piper.phones import Espeak
from talker.synthesis import synthesise
from tests.pipeline.test_checkpoints import SEED, models, near, posted, spoken
from ttscommon.process.metrics import Metrics
from ttscommon.wire.messages import SpeechRequest
from vocoder.codecs import load as load_codec
from vocoder.codecs.base import Work
from vocoder.pcm import to_pcm

BLEND = "af_heart*0.6+af_sky*0.4"
TEXT = (
    "The old bridge was closed for repairs, so we walked along the river until it was almost dark."
    " Nobody minded; we had time, and the water was quiet. At the end of the path a man sold coffee"
    " from a small cart, which he had painted green himself because he liked the colour so much."
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kokoro")
    write_checkpoint(path, seed=3)
    return path


@pytest.fixture
async def served(folder: Path, tmp_path: Path) -> AsyncIterator[LocalStack]:
    patient = {"ANTIPHON_FIRST_AUDIO_TIMEOUT_S": "120", "ANTIPHON_STALL_TIMEOUT_S": "120"}
    config = StackConfig(
        port=0,
        store=tmp_path / "store",
        models=(Checkpoint.parse(f"tiny={folder}"),),
        environ={"gateway": {"ANTIPHON_ADMISSION": "off", **patient}},
        start_timeout_s=300.0,
    )
    lines: list[str] = []
    async with LocalStack(config, lambda name, line: lines.append(f"{name}: {line}")) as running:
        yield running
    print("\n".join(lines))


def offline(folder: Path) -> Any:
    """[samples] int16 of TEXT, without a stack."""
    torch.set_num_threads(1)
    engine = Engine(load_talker("tiny", folder), slots=1, metrics=Metrics())
    (made,) = synthesise(engine, [SpeechRequest("r", "tiny", BLEND, TEXT, seed=SEED)])
    assert np.count_nonzero(made.arrays["left"] == 0) > 3  # segments
    codec = load_codec("tiny", folder)
    state = codec.open(SpeechRequest("r", "tiny", BLEND, "", seed=SEED))
    return to_pcm(codec.decode([Work(state, made.arrays, final=True)])[0])


async def test_segments_are_spoken_over_http_and_socket_whoever_dies(
    served: LocalStack, folder: Path
) -> None:
    async with httpx.AsyncClient(base_url=served.url, timeout=180) as client:
        async with asyncio.timeout(10):
            while await models(client) != {"vesper", "tiny"}:
                await asyncio.sleep(0.05)  # gateways look once a second
        whole = await posted(client, voice=BLEND, input=TEXT)
        assert len(whole) > 4 * 24_000
        assert np.abs(whole.astype(int)).max() > 1000
        assert near(whole, await asyncio.to_thread(offline, folder))
        disturbed = await spoken(served, "talker-tiny-1", "vocoder-tiny-1", voice=BLEND, text=TEXT)
        assert near(disturbed, whole)
        paused = f'{TEXT} <break time="2s"/> {TEXT}'
        silent = await spoken(served, "vocoder-tiny-1", voice=BLEND, text=paused)
        assert len(silent) == 2 * len(whole) + 2 * 24_000
        assert near(silent[: len(whole)], whole)
        assert not silent[len(whole) : len(whole) + 2 * 24_000].any()
        assert len(await posted(client, model="vesper", voice="vesper")) > 16_000
        await voices_are_listed_and_bad_blends_refused(client)


async def voices_are_listed_and_bad_blends_refused(client: httpx.AsyncClient) -> None:
    listed = (await client.get("/v1/audio/voices", params={"model": "tiny"})).json()["voices"]
    spanish = {"ef_dora"} if Espeak.installed() else set[str]()
    english = {"af_heart", "af_sky", "am_adam", "bf_emma"}
    assert {voice["id"] for voice in listed} == english | spanish
    for bad in ("af_heart*0.6+nobody*0.4", "af_heart*", "af_heart*0", "jf_alpha"):
        asked = {"input": "Hello.", "model": "tiny", "voice": bad}
        answer = await client.post("/v1/audio/speech", json=asked)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unknown_voice"), bad
