"""Adapters in a whole stack: many voices in one deployment, whichever talker dies."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from antiphon.stack import LocalStack, StackConfig
from antiphon.stack.checkpoints import Checkpoint
from tests.adapters import files, write
from ttsfamilies.qwen3_tts.synthetic import write_checkpoint

TEXT = "It's the end of the world, and you're singing to the user: how odd!"
SEED = 16
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
    return StackConfig(
        port=0,
        store=tmp_path / "store",
        talkers=2,
        models=(Checkpoint.parse(f"tiny={tmp_path / 'tiny'}"),),
        environ={
            "gateway": {
                "ANTIPHON_ADMISSION": "off",
                "ANTIPHON_MAX_ADAPTERS": "2",
                "ANTIPHON_FIRST_AUDIO_TIMEOUT_S": "120",
                "ANTIPHON_STALL_TIMEOUT_S": "120",
            },
            "talker": talkers,
        },
        start_timeout_s=300.0,
    )


async def posted(client: httpx.AsyncClient, *victims: Any, **body: Any) -> Any:
    """[samples] int16, or the error's code; the victims are killed, one after each piece."""
    asked = {"input": TEXT, "model": "tiny", "voice": "ryan", "seed": SEED} | body
    left, pcm = list(victims), b""
    asked |= {"response_format": "pcm"}
    async with client.stream("POST", "/v1/audio/speech", json=asked) as response:
        if response.status_code != 200:
            return json.loads(await response.aread())["error"]["code"]
        async for piece in response.aiter_bytes():
            pcm += piece
            if left:
                left.pop(0).kill()
    return np.frombuffer(pcm, "<i2")


def near(one: Any, other: Any) -> bool:
    """The same to one int16 step."""
    return len(one) == len(other) and int(np.abs(one.astype(int) - other).max()) <= 1


@pytest.mark.slow
async def test_adapters_are_spoken_with_whichever_talker_dies(config: StackConfig) -> None:
    async with (
        LocalStack(config, lambda name, line: print(f"{name}: {line}")) as stack,
        httpx.AsyncClient(base_url=stack.url, timeout=180) as client,
    ):
        async with asyncio.timeout(20):
            while "tiny" not in (listed := await models(client)):
                await asyncio.sleep(0.05)  # gateways look once a second
        (known,) = listed["tiny"]["adapters"]
        assert (known["name"], known["digest"], known["rank"]) == ("narrator", FOLDER.digest, 8)
        assert "adapters" not in listed["vesper"]
        parts = {
            "adapter_config": ("adapter_config.json", UPLOADED.config),
            "adapter_model": ("adapter_model.safetensors", UPLOADED.weights),
        }
        made = await client.post("/v1/audio/adapters", data={"name": "mine"}, files=parts)
        assert made.status_code == 200, made.text
        plain, narrator, mine = [await posted(client, adapter=a) for a in ("", "narrator", "mine")]
        assert not near(plain, narrator)
        assert not near(narrator, mine)
        assert near(plain, await posted(client))
        bound = await posted(client, voice="vivian")
        assert near(bound, await posted(client, voice="vivian", adapter="narrator"))
        assert await posted(client, adapter="nobody") == "unknown_adapter"
        # One place each: both are asked for at once, and both talkers die with one of them.
        victims = [stack.children[f"talker-tiny-{number}"] for number in (1, 2)]
        both = await asyncio.gather(
            posted(client, *victims, adapter="mine"), posted(client, adapter="narrator")
        )
        assert near(both[0], mine)
        assert near(both[1], narrator)


async def models(client: httpx.AsyncClient) -> dict[str, Any]:
    return {model["id"]: model for model in (await client.get("/v1/models")).json()["data"]}
