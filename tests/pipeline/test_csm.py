"""CSM with the codec of its own checkpoint, next to the default voice; both stages are killed."""

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
from antiphon_bench.synthetic.csm import write_checkpoint
from antiphon_bench.synthetic.mimi import add_decoder
from talker.engine.engine import Engine
from talker.models import load as load_talker
from talker.synthesis import synthesise
from tests.pipeline.test_checkpoints import SEED, TEXT, models, near, posted, spoken
from tests.unit.ttscommon.sound.test_recordings import wav
from ttscommon.process.metrics import Metrics
from ttscommon.wire.messages import SpeechRequest
from vocoder.codecs import load as load_codec
from vocoder.codecs.base import Work
from vocoder.pcm import to_pcm


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of four codebooks that ends its speech by itself."""
    found = tmp_path_factory.mktemp("csm")
    write_checkpoint(found, seed=8, codebooks=4, ending=2.15)
    add_decoder(found, seed=8)
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
    engine = Engine(load_talker("tiny", folder), slots=1, blocks=128, metrics=Metrics())
    request = SpeechRequest("r", "tiny", "", TEXT, seed=SEED)
    (made,) = synthesise(engine, [request])
    codec = load_codec("tiny", folder)
    work = Work(codec.open(request), {"codes": made.arrays["codes"]}, final=True)
    return to_pcm(codec.decode([work])[0])


async def test_csm_speaks_whoever_dies_and_goes_on_from_turns(
    served: LocalStack, folder: Path
) -> None:
    async with httpx.AsyncClient(base_url=served.url, timeout=180) as client:
        async with asyncio.timeout(10):
            while await models(client) != {"vesper", "tiny"}:
                await asyncio.sleep(0.05)  # gateways look once a second
        whole = await posted(client, voice="default")
        assert len(whole) > 24_000
        assert len(whole) % 1920 == 0
        assert near(whole, await asyncio.to_thread(offline, folder))
        disturbed = await spoken(served, "talker-tiny-1", "vocoder-tiny-1", voice="default")
        assert near(disturbed, whole)
        await turns_change_what_is_said(client, whole)
        assert len(await posted(client, model="vesper", voice="vesper")) > 16_000


async def turns_change_what_is_said(client: httpx.AsyncClient, alone: Any) -> None:
    """And the same turns say the same."""
    sound = base64.b64encode(wav(1.5)).decode()
    turns = [{"speaker": 1, "text": "Who sings?", "audio": sound}, {"text": "Nobody."}]
    asked = {"turns": turns, "speaker": 1, "max_new_tokens": 10}
    one, other = [await posted(client, voice="default", **asked) for _ in range(2)]
    assert near(one, other)
    assert not near(one, alone[: len(one)])
    assert np.abs(one.astype(int)).max() > 100
    await a_recording_is_a_turn(client, sound)
    refused = await client.post(
        "/v1/audio/speech", json={"input": TEXT, "model": "vesper", "turns": turns}
    )
    assert refused.status_code == 400


async def a_recording_is_a_turn(client: httpx.AsyncClient, sound: str) -> None:
    """Of the speaker who goes on; its words have to be told."""
    turn = [{"speaker": 1, "text": "Who sings?", "audio": sound}]
    cloned = {"voice": "default", "ref_audio": sound, "speaker": 1, "max_new_tokens": 10}
    one = await posted(client, ref_text="Who sings?", **cloned)
    other = await posted(client, voice="default", turns=turn, speaker=1, max_new_tokens=10)
    assert near(one, other)
    untold = await client.post("/v1/audio/speech", json={"input": TEXT, "model": "tiny"} | cloned)
    assert untold.json()["error"]["param"] == "ref_text"
