"""A gateway that marks the sound itself: a listener who comes back hears the same samples."""

from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np
import pytest
from safetensors.numpy import save_file

from gateway.settings import GatewaySettings
from tests.unit.gateway.audio.tiny_perth import weights

TEXT: Final = "The tide came in before dawn, slow and silver, over the stones. " * 4
SPEECH: Final = "/v1/audio/speech"
ASKED: Final = {"input": TEXT, "response_format": "pcm", "seed": 0, "resumable": True}


@pytest.fixture
def settings(tmp_path: Path) -> GatewaySettings:
    save_file(weights(), tmp_path / "perth.safetensors")
    return GatewaySettings(port=0, watermark=tmp_path / "perth.safetensors")


async def test_the_rest_is_marked_as_it_would_have_been(stand: Any, talk: Any) -> None:
    for rate in (16_000, 24_000):
        whole = await stand.http.post(SPEECH, json={**ASKED, "sample_rate": rate})
        await expect_rest(stand, whole, rate)
        pcm, plain = np.frombuffer(whole.content, "<i2"), talk.sound(TEXT)
        if rate == 16_000:
            assert len(pcm) == len(plain)
            assert not np.array_equal(pcm, plain)


async def expect_rest(stand: Any, whole: httpx.Response, rate: int) -> None:
    pcm = np.frombuffer(whole.content, "<i2")
    token = {"x-resume-token": whole.headers["x-resume-token"]}
    for sample in (0, 4321, len(pcm) // 2, len(pcm) - 100):
        path = f"{SPEECH}/{whole.headers['x-request-id']}?from_sample={sample}&sample_rate={rate}"
        rest = await stand.http.get(path, headers=token)
        assert np.array_equal(np.frombuffer(rest.content, "<i2"), pcm[sample:]), sample
