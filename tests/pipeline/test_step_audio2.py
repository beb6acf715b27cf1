"""Step-Audio 2 in a stack: speech in, words and speech out, with a voice made of a recording."""

from collections.abc import AsyncIterator
from typing import Any, Final

import httpx
import numpy as np
import pytest
import pytest_asyncio

from antiphon.stack import LocalStack
from tests import answering
from tests.answering import LIMIT_S, VOICES, serving, voiced
from tests.unit.ttscommon.sound.test_recordings import wav
from ttsfamilies.step_audio2.synthetic import add_codec, write_checkpoint

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

WORKERS: Final = ("talker-step-1", "vocoder-step-1")
IDS: Final = 120
# Of int16: batches and windows of other lengths round otherwise.
TOLERANCE: Final = 4


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalStack]:
    """One talker and one vocoder, beside the default voice."""
    folder = tmp_path_factory.mktemp("step")
    write_checkpoint(folder, seed=3, ending=0.0)
    add_codec(folder, seed=3)
    async with serving("step", folder, tmp_path_factory.mktemp("store")) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def voice(served: LocalStack) -> str:
    async with httpx.AsyncClient(base_url=served.url, timeout=LIMIT_S) as client:
        await voiced(client)
    return VOICES["step"]


async def answered(stack: LocalStack, voice: str, *victims: str, **told: Any) -> tuple[Any, str]:
    """An answer of so many ids, its [samples] int and its words; see tests/answering.py."""
    config: dict[str, Any] = {"model": "step", "voice": voice, "seed": 7, "max_new_tokens": IDS}
    return await answering.answered(stack, *victims, **config, **told)


def near(one: Any, other: Any) -> bool:
    return len(one) == len(other) and np.abs(one - other).max() <= TOLERANCE


async def test_what_was_said_is_answered_once_when_talker_and_vocoder_die(
    served: LocalStack, voice: str
) -> None:
    said = wav(1.3, rate=16_000)
    alone, words = await answered(served, voice, speech=said)
    assert len(alone) > 48_000
    assert len(alone) % 960 == 0
    assert np.abs(alone).max() > 300
    assert words
    pcm, again = await answered(served, voice, *WORKERS, speech=said)
    assert near(pcm, alone)
    assert again == words


async def test_an_answer_follows_what_was_said_and_what_was_written(
    served: LocalStack, voice: str
) -> None:
    said = wav(0.4, rate=16_000)  # shorter than a voice may be
    heard, _ = await answered(served, voice, speech=said)
    other, _ = await answered(served, voice, speech=wav(0.4, rate=16_000, loudness=0.1))
    asked, _ = await answered(served, voice, speech=said, text="Is it odd?")
    written, _ = await answered(served, voice, text="Is it odd?")
    sung, _ = await answered(served, voice, text="Is it odd?", instructions="Sing it.")
    every = (heard, other, asked, written, sung)
    assert not any(near(one, two) for i, one in enumerate(every) for two in every[:i])


async def test_a_recording_may_be_a_voice_and_what_was_said(served: LocalStack, voice: str) -> None:
    """What one talker derived of it as the one is not read as the other."""
    alone, _ = await answered(served, voice, speech=wav(1.5))
    assert len(alone) > 48_000


async def test_without_a_voice_it_is_refused(served: LocalStack) -> None:
    body = {"model": "step", "voice": "nobody", "input": "Hello."}
    async with httpx.AsyncClient(base_url=served.url, timeout=LIMIT_S) as client:
        answer = await client.post("/v1/audio/speech", json=body)
    assert answer.status_code in (400, 404), answer.text
