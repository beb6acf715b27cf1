"""Pocket TTS with the codec of its own checkpoint, next to the default voice: frames of floats are
logged as they are fed back, and both stages are killed.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch

from antiphon.stack import LocalStack, StackConfig
from antiphon.stack.checkpoints import Checkpoint
from antiphon_bench.synthetic.pocket_tts import write_checkpoint
from talker.engine.engine import Engine
from talker.models import load as load_talker
from talker.synthesis import synthesise
from tests.pipeline.test_checkpoints import SEED, models, near, posted, spoken
from tests.unit.ttscommon.sound.test_recordings import wav
from ttscommon.process.metrics import Metrics
from ttscommon.wire.messages import SpeechRequest
from vocoder.codecs import load as load_codec
from vocoder.codecs.base import Work
from vocoder.pcm import to_pcm

# Several chunks.
TEXT = "It's the end of the world, and one is singing to the user: how odd! To say 3.14 is odd."
VOICE = "slt"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint that ends its speech by itself."""
    found = tmp_path_factory.mktemp("pocket")
    write_checkpoint(found, seed=8, ending=-5.5)
    return found


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
    engine = Engine(load_talker("tiny", folder), slots=1, blocks=256, metrics=Metrics())
    request = SpeechRequest("r", "tiny", VOICE, TEXT, seed=SEED)
    (made,) = synthesise(engine, [request])
    assert len(np.unique(made.arrays["passage"])) > 1
    codec = load_codec("tiny", folder)
    frames = {name: made.arrays[name] for name in codec.spec.frame}
    return to_pcm(codec.decode([Work(codec.open(request), frames, final=True)])[0])


async def test_pocket_tts_speaks_whoever_dies_in_published_and_cloned_voices(
    served: LocalStack, folder: Path
) -> None:
    async with httpx.AsyncClient(base_url=served.url, timeout=180) as client:
        async with asyncio.timeout(10):
            while await models(client) != {"vesper", "tiny"}:
                await asyncio.sleep(0.05)  # gateways look once a second
        whole = await posted(client, voice=VOICE, input=TEXT)
        assert len(whole) > 24_000
        assert len(whole) % 1920 == 0
        assert near(whole, await asyncio.to_thread(offline, folder))
        disturbed = await spoken(served, "talker-tiny-1", "vocoder-tiny-1", voice=VOICE, text=TEXT)
        assert near(disturbed, whole)
        await a_recording_gives_another_voice(client, whole)
        assert len(await posted(client, model="vesper", voice="vesper")) > 16_000


async def a_recording_gives_another_voice(client: httpx.AsyncClient, published: Any) -> None:
    """And the same recording the same."""
    asked = {"ref_audio": base64.b64encode(wav(1.5)).decode(), "max_new_tokens": 10}
    one, other = [await posted(client, voice=VOICE, input=TEXT, **asked) for _ in range(2)]
    assert len(one) == 10 * 1920
    assert near(one, other)
    assert not near(one, published[: len(one)])
    refused = await client.post(
        "/v1/audio/speech", json={"input": TEXT, "model": "tiny", "voice": "nobody"}
    )
    assert refused.status_code == 400, refused.text
    assert "nobody" in refused.text
