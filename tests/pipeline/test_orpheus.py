"""Orpheus with a codec from elsewhere, next to the default voice; both stages are killed."""

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
from antiphon_bench.synthetic.orpheus import write_checkpoint
from antiphon_bench.synthetic.snac import write_codec
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
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A talker that ends by itself, and a codec."""
    folder = tmp_path_factory.mktemp("orpheus")
    write_checkpoint(folder / "talker", seed=3, ending=2.0)
    write_codec(folder / "codec", seed=2)
    return folder / "talker", folder / "codec"


@pytest.fixture
async def served(folders: tuple[Path, Path], tmp_path: Path) -> AsyncIterator[LocalStack]:
    talker, codec = folders
    patient = {"ANTIPHON_FIRST_AUDIO_TIMEOUT_S": "120", "ANTIPHON_STALL_TIMEOUT_S": "120"}
    config = StackConfig(
        port=0,
        store=tmp_path / "store",
        models=(Checkpoint.parse(f"tiny={talker},codec={codec}"),),
        environ={"gateway": {"ANTIPHON_ADMISSION": "off", **patient}},
        start_timeout_s=300.0,
    )
    lines: list[str] = []
    async with LocalStack(config, lambda name, line: lines.append(f"{name}: {line}")) as running:
        yield running
    print("\n".join(lines))


def offline(talker: Path, codec: Path) -> Any:
    """[samples] int16 of TEXT, without a stack."""
    torch.set_num_threads(1)
    engine = Engine(load_talker("tiny", talker), slots=1, blocks=600, metrics=Metrics())
    request = SpeechRequest("r", "tiny", "tara", TEXT, seed=SEED)
    (made,) = synthesise(engine, [request])
    decoder = load_codec("tiny", codec)
    work = Work(decoder.open(request), {"codes": made.arrays["codes"]}, final=True)
    return to_pcm(decoder.decode([work])[0])


async def test_a_talker_with_a_codec_from_elsewhere_speaks_whoever_dies(
    served: LocalStack, folders: tuple[Path, Path]
) -> None:
    async with httpx.AsyncClient(base_url=served.url, timeout=180) as client:
        async with asyncio.timeout(10):
            while await models(client) != {"vesper", "tiny"}:
                await asyncio.sleep(0.05)  # gateways look once a second
        whole = await posted(client, voice="tara")
        assert len(whole) > 24_000
        assert len(whole) % 2048 == 0
        assert near(whole, await asyncio.to_thread(offline, *folders))
        undisturbed = await spoken(served, voice="tara")
        assert near(undisturbed, whole)
        disturbed = await spoken(served, "talker-tiny-1", "vocoder-tiny-1", voice="tara")
        assert near(disturbed, whole)
        other = await client.post(
            "/v1/audio/speech", json={"input": "Hello.", "model": "tiny", "voice": "nobody"}
        )
        assert other.json()["error"]["code"] == "unknown_voice"
        assert np.abs(whole.astype(int)).max() > 1000
