"""A Piper voice next to the default one, over HTTP and the socket; both stages are killed."""

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
from antiphon_bench.synthetic.piper import write_voice
from talker.engine.engine import Engine
from talker.models import load as load_talker
from talker.synthesis import synthesise
from tests.pipeline.test_checkpoints import SEED, TEXT, models, near, posted, spoken
from ttscommon.process.metrics import Metrics
from ttscommon.wire.messages import SpeechRequest
from vocoder.codecs import load as load_codec
from vocoder.codecs.base import Work
from vocoder.pcm import to_pcm


@pytest.fixture(scope="module")
def voice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A voice file of two speakers, at the rate that gateways answer with unasked."""
    path = tmp_path_factory.mktemp("piper") / "two.onnx"
    write_voice(path, speakers=2, seed=3, sample_rate=24_000)
    return path


@pytest.fixture
async def served(voice: Path, tmp_path: Path) -> AsyncIterator[LocalStack]:
    patient = {"ANTIPHON_FIRST_AUDIO_TIMEOUT_S": "120", "ANTIPHON_STALL_TIMEOUT_S": "120"}
    config = StackConfig(
        port=0,
        store=tmp_path / "store",
        models=(Checkpoint.parse(f"tiny={voice}"),),
        environ={"gateway": {"ANTIPHON_ADMISSION": "off", **patient}},
        start_timeout_s=300.0,
    )
    lines: list[str] = []
    async with LocalStack(config, lambda name, line: lines.append(f"{name}: {line}")) as running:
        yield running
    print("\n".join(lines))


def offline(voice: Path, speaker: str) -> Any:
    """[samples] int16 of TEXT, without a stack."""
    torch.set_num_threads(1)
    engine = Engine(load_talker("tiny", voice), slots=1, metrics=Metrics())
    request = SpeechRequest("r", "tiny", speaker, TEXT, seed=SEED)
    (made,) = synthesise(engine, [request])
    decoder = load_codec("tiny", voice)
    frames = {name: made.arrays[name] for name in decoder.spec.frame}
    work = Work(decoder.open(request), frames, final=True)
    return to_pcm(decoder.decode([work])[0])


async def test_a_voice_of_several_speakers_speaks_whoever_dies(
    served: LocalStack, voice: Path
) -> None:
    async with httpx.AsyncClient(base_url=served.url, timeout=180) as client:
        async with asyncio.timeout(10):
            while await models(client) != {"vesper", "tiny"}:
                await asyncio.sleep(0.05)  # gateways look once a second
        whole = await posted(client, voice="speaker-1")
        assert len(whole) > 22_050
        assert np.abs(whole.astype(int)).max() > 300
        assert near(whole, await asyncio.to_thread(offline, voice, "speaker-1"))
        other = await asyncio.to_thread(offline, voice, "speaker-0")
        assert len(other) != len(whole) or not near(whole, other)
        disturbed = await spoken(served, "talker-tiny-1", "vocoder-tiny-1", voice="speaker-1")
        assert near(disturbed, whole)
        refused = await client.post(
            "/v1/audio/speech", json={"input": "Hello.", "model": "tiny", "voice": "nobody"}
        )
        assert refused.json()["error"]["code"] == "unknown_voice"
        voices = (await client.get("/v1/audio/voices", params={"model": "tiny"})).json()
        assert "speaker-1" in str(voices)
        assert "en-US" in str(voices)
