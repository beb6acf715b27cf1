"""`antiphon up --model NAME=ORG/NAME`, for every family: one command, and sound over HTTP.

Repositories are synthetic and lie at a stand-in for the hub. What each start took is printed (-s).
"""

import base64
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np
import pytest

from tests.deploy.installed import started
from tests.unit.ttscommon.engine.hub_server import Hub, serving
from tests.unit.ttscommon.sound.test_recordings import wav
from tests.unit.ttsfamilies.repositories import ALL
from ttscommon.engine.kernels import kept

pytestmark = pytest.mark.slow

TEXT: Final = "It's the end of the world, and one is singing to the user."
_TOKENS: Final = 70
_RATE_HZ: Final = 24_000
_START_S: Final = 300
_SPEECH_S: Final = 240.0
# Weights drawn from a seed babble: no shorter than a word, no longer than the limits.
_LEAST_S, _MOST_S = 0.2, 90.0


def environment(hub: Hub, home: Path) -> Mapping[str, str]:
    """As of a user who has an empty cache. Kernels are compiled already, as an image has them."""
    return {
        **os.environ,
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(home / "hub"),
        "HF_HUB_DISABLE_XET": "1",
        "XDG_CACHE_HOME": str(home),
        "NUMBA_CACHE_DIR": os.environ.get("NUMBA_CACHE_DIR", str(kept.folder())),
        # A machine that runs other tests as well is slow.
        "ANTIPHON_ADMISSION": "off",
        "ANTIPHON_FIRST_AUDIO_TIMEOUT_S": "120",
        "ANTIPHON_STALL_TIMEOUT_S": "120",
    }


@contextmanager
def up(given: str, env: Mapping[str, str]) -> Iterator[tuple[str, str, float]]:
    """Its address, all that it said until it was up, and how many seconds that took."""
    antiphon = str(Path(sys.executable).with_name("antiphon"))
    command = [antiphon, "up", "--port", "0", "--start-timeout", str(_START_S)]
    began = time.monotonic()
    with started([*command, "--model", f"it={given}"], env=env) as (url, said):
        yield url, said, time.monotonic() - began


def asked(model: Mapping[str, Any]) -> dict[str, Any]:
    """What is posted; a model without voices of its own is given a recording."""
    accepts = model["accepts"]
    body = {"model": "it", "input": TEXT, "seed": 7, "response_format": "pcm"}
    body |= {"runaway_guard": False}  # weights drawn from a seed loop rightly
    if "max_new_tokens" in accepts:
        body |= {"max_new_tokens": _TOKENS}
    if not model["voices"] and "ref_audio" in accepts:
        body |= {"ref_audio": base64.b64encode(wav(2.0)).decode()}
        body |= {"ref_text": "It's odd."} if "ref_text" in accepts else {}
    return body


def spoken(url: str) -> Any:
    """[samples] int16 of TEXT over HTTP."""
    with httpx.Client(base_url=url, timeout=_SPEECH_S) as http:
        found = http.get("/v1/models/it")
        assert found.status_code == 200, http.get("/v1/models").text
        answer = http.post("/v1/audio/speech", json=asked(found.json()))
    assert answer.status_code == 200, answer.text
    return np.frombuffer(answer.content, "<i2")


@pytest.mark.parametrize("name", ALL)
def test_one_command_serves_a_repository_and_it_is_heard(name: str, tmp_path: Path) -> None:
    published = ALL[name]()
    with serving(Hub(others=published.repositories)) as hub:
        env = environment(hub, tmp_path)
        with up(published.given, env) as (url, said, cold_s):
            samples = spoken(url)
        gets = len(hub.gets)
        with up(published.given, env) as (url, said_again, warm_s):
            again = spoken(url)
        assert len(hub.gets) == gets
    seconds, peak = len(samples) / _RATE_HZ, int(np.abs(samples.astype(int)).max())
    print(
        f"\n| {name} | {published.given} | {cold_s:.0f} | {warm_s:.0f} | {seconds:.1f} | {peak} |"
    )
    assert "converts" not in said_again, said
    assert _LEAST_S < seconds < _MOST_S
    assert peak > 0
    assert len(np.unique(samples)) > 1
    assert len(again) == len(samples)
