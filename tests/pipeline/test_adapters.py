"""Adapters in a whole stack: many voices in one deployment, whichever talker dies."""

import asyncio
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from antiphon.stack import StackConfig
from antiphon.stack.checkpoints import Checkpoint
from tests.adapters import files, write
from tests.pipeline.test_checkpoints import TEXT, near, posted, spoken
from tests.stacks import listed, logged, patient
from ttsfamilies.qwen3_tts.synthetic import write_checkpoint

SIZES = {
    f"talker.model.layers.{layer}.self_attn.{name}_proj": size
    for layer in range(2)
    for name, size in {"q": (64, 48), "o": (48, 64)}.items()
}
FOLDER, UPLOADED = (files(SIZES, 8, seed=seed, loud=0.3) for seed in (1, 2))


@pytest.fixture
def config(tmp_path: Path) -> StackConfig:
    """Two talkers of a model, each with one place: adapters take turns in it."""
    write_checkpoint(tmp_path / "tiny", "tiny", "custom_voice", seed=5, ending=5.0)
    write(tmp_path / "adapters" / "narrator", FOLDER)
    talkers = {
        "ANTIPHON_ADAPTERS": "1",
        "ANTIPHON_ADAPTER_DIR": str(tmp_path / "adapters"),
        "ANTIPHON_VOICE_ADAPTERS": "vivian=narrator",
        "ANTIPHON_RUNAWAY_GUARD": "false",  # weights drawn from a seed loop rightly
    }
    models = [Checkpoint.parse(f"tiny={tmp_path / 'tiny'}")]
    gateway = {"ANTIPHON_MAX_ADAPTERS": "2"}
    return replace(patient(tmp_path / "store", models, gateway, talker=talkers), talkers=2)


@pytest.mark.slow
async def test_adapters_are_spoken_with_whichever_talker_dies(config: StackConfig) -> None:
    async with (
        logged(config) as stack,
        httpx.AsyncClient(base_url=stack.url, timeout=180) as client,
    ):
        await listed(client, "tiny")
        found = (await client.get("/v1/models")).json()["data"]
        adapters = {model["id"]: model.get("adapters") for model in found}
        (known,) = adapters["tiny"]
        assert (known["name"], known["digest"], known["rank"]) == ("narrator", FOLDER.digest, 8)
        assert adapters["vesper"] is None
        parts = {
            "adapter_config": ("adapter_config.json", UPLOADED.config),
            "adapter_model": ("adapter_model.safetensors", UPLOADED.weights),
        }
        made = await client.post("/v1/audio/adapters", data={"name": "mine"}, files=parts)
        assert made.status_code == 200, made.text
        said = {"voice": "ryan"}
        plain, narrator, mine = [
            await posted(client, **said, adapter=name) for name in ("", "narrator", "mine")
        ]
        assert not near(plain, narrator)
        assert not near(narrator, mine)
        assert near(plain, await posted(client, **said))
        bound = await posted(client, voice="vivian")
        assert near(bound, await posted(client, voice="vivian", adapter="narrator"))
        unknown = {"input": TEXT, "model": "tiny", **said, "adapter": "nobody"}
        error = (await client.post("/v1/audio/speech", json=unknown)).json()["error"]
        assert error["code"] == "unknown_adapter"
        # What a client sends piece by piece is read otherwise.
        written = await spoken(stack, **said, adapter="mine")
        # One place each: both are asked for at once, and both talkers die with one of them.
        both = await asyncio.gather(
            spoken(stack, "talker-tiny-1", "talker-tiny-2", **said, adapter="mine"),
            posted(client, **said, adapter="narrator"),
        )
        assert near(both[0], written)
        assert near(both[1], narrator)
