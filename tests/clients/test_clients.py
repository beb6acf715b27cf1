"""Real clients, pinned and unmodified, each against a stack; `make clients`.

What they received is compared with what Antiphon's own socket says: most mistakes are silent, and
only the length or the times show them.
"""

import asyncio
import os
import re
import urllib.request
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from antiphon.stack import LocalStack
from tests.answering import VOICES
from tests.clients.cases import (
    ALIGNED,
    HOME,
    INTERRUPTING,
    LISTING,
    REFUSED,
    RETRYING,
    SPEAKING,
    SPOKEN,
    TIMED,
    UNAUTHORISED,
)
from tests.clients.conftest import workers
from tests.clients.drive.common import SENTENCES, TEXT

# Clients join sentences in their own ways; a character of the fake voice lasts 64 ms.
TOLERANCE_S: Final = 0.35
EXACT_S: Final = 0.02
INTERRUPTIONS: Final = 4

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif("ANTIPHON_CLIENTS" not in os.environ, reason="`make clients` has them"),
    pytest.mark.filterwarnings("default:not installed"),
]


async def test_every_client_hears_all_of_it(drive: Any, here: Any, own_seconds: Any) -> None:
    expected = await own_seconds(TEXT)
    wrong = {}
    for name in here(SPEAKING):
        heard = await drive(name)
        if heard["error"] or abs(heard["seconds"] - expected) > TOLERANCE_S:
            wrong[name] = heard
    assert wrong == {}, expected


async def test_lists_are_read_to_their_end(drive: Any, here: Any, stack: LocalStack) -> None:
    async with httpx.AsyncClient(base_url=stack.url) as http:
        listed = (await http.get("/v1/audio/voices")).json()["voices"]
    voices = [voice["id"] for voice in listed]
    assert len(voices) > 2
    for name in here(LISTING):
        heard = await drive(name)
        assert (heard["error"], heard["spelled"].split()) == (None, voices), name


async def test_clients_that_insist_on_tls_are_served_behind_it(
    drive: Any, own_seconds: Any, with_tls: tuple[str, str]
) -> None:
    url, authority = with_tls
    heard = await drive("elevenlabs_realtime", url=url, authority=authority)
    assert heard["error"] is None
    assert heard["seconds"] == pytest.approx(await own_seconds(TEXT), abs=TOLERANCE_S)


@pytest.mark.parametrize("stack", [{"engine": "torch"}], indirect=True)
async def test_word_times_are_those_of_the_text(drive: Any, here: Any) -> None:
    wrong = {}
    for name in here(TIMED):
        heard = await drive(name)
        words = [word for word, _ in heard["words"]]
        times = [start for _, start in heard["words"]]
        in_order = times == sorted(times) and 2.0 < times[-1] - times[0] < heard["seconds"]
        if " ".join(words).split() != TEXT.split() or not in_order:
            wrong[name] = heard
    assert wrong == {}


@pytest.mark.parametrize("stack", [{"engine": "torch"}], indirect=True)
async def test_alignments_are_of_the_text_and_as_long_as_the_audio(drive: Any, here: Any) -> None:
    wrong = {}
    for name in here(ALIGNED):
        heard = await drive(name)
        exact = heard["spelled"] == TEXT or name.startswith("pipecat")
        if not exact or abs(heard["timed_s"] - heard["seconds"]) > EXACT_S:
            wrong[name] = heard
    assert wrong == {}


@pytest.mark.parametrize("stack", [{"engine": "torch"}], indirect=True)
@pytest.mark.parametrize("name", ["pipecat_elevenlabs", "pipecat_elevenlabs_open"])
async def test_words_after_an_interruption_are_in_time(drive: Any, here: Any, name: str) -> None:
    """Pipecat adds word times of the context that was interrupted to those of the next."""
    for _ in range(INTERRUPTIONS if here([name]) else 0):
        assert (await drive(name, "interrupt"))["late_s"] < TOLERANCE_S


async def test_who_interrupts_hears_no_more_of_it_and_all_of_what_is_next(
    drive: Any, here: Any, own_seconds: Any, stack: LocalStack
) -> None:
    short_s, long_s = await own_seconds(SENTENCES[0]), 12 * await own_seconds(TEXT)
    wrong = {}
    for name in here(INTERRUPTING):
        before = cancelled(stack)
        heard = await drive(name, "interrupt")
        await nobody_is_heard(stack)
        fits = abs(heard["seconds"] - short_s) < TOLERANCE_S and heard["stray_s"] < TOLERANCE_S
        if not (fits and 0 < heard["cut_s"] < long_s / 2 and cancelled(stack) > before):
            wrong[name] = heard
    assert wrong == {}, short_s


@pytest.mark.parametrize("stack", [{"speechless": True}], indirect=True)
async def test_home_assistant_has_voices_once_there_are_some(
    drive: Any, here: Any, own_seconds: Any, stack: LocalStack, tmp_path: Path
) -> None:
    """Its integration asks once, before anything can be spoken, and is reloaded by nobody."""
    async with AsyncExitStack() as running:

        async def begin(state: str) -> None:
            assert state == "SETUP_RETRY"
            await running.enter_async_context(workers(stack, tmp_path))

        for name in here([HOME]):
            heard = await drive(name, meanwhile=begin)
            assert (heard["error"], heard["spelled"]) == (None, "rms slt")
            assert heard["seconds"] == pytest.approx(2 * await own_seconds(TEXT), abs=TOLERANCE_S)


@pytest.mark.parametrize("stack", [{"answering": True}], indirect=True)
async def test_what_users_say_is_answered_by_models_that_hear(drive: Any, here: Any) -> None:
    """Two turns that the client finds; then one that the server finds, and one that cuts it off."""
    wrong = {}
    for name in here(SPOKEN):
        for model, voice in VOICES.items():
            about = {"model": model, "voice": voice}
            whole, cut = [await drive(name, mode, **about) for mode in ("speak", "interrupt")]
            answers = [*whole["words"], *cut["words"]]
            spoke = all(words.strip() and seconds > 0.3 for words, seconds in answers)
            if not (spoke and len(answers) == 3 and cut["cut_s"] > 0) or cut["error"]:
                wrong[name, model] = whole, cut
    assert wrong == {}


async def test_failures_are_the_clients_own_classes(drive: Any, here: Any) -> None:
    found = {name: (await drive(name))["error"] for name in here(REFUSED)}
    assert found == {name: REFUSED[name] for name in found}


@pytest.mark.parametrize("stack", [{"keys": True}], indirect=True)
async def test_a_wrong_key_is_the_clients_own_class(drive: Any, here: Any) -> None:
    found = {name: (await drive(name, key="wrong"))["error"] for name in here(UNAUTHORISED)}
    assert found == {name: UNAUTHORISED[name] for name in found}


@pytest.mark.parametrize("stack", [{"keys": True}], indirect=True)
async def test_every_client_brings_its_key(drive: Any, here: Any) -> None:
    heard = {name: (await drive(name))["seconds"] for name in here(UNAUTHORISED)}
    assert [name for name, seconds in heard.items() if seconds < 5] == []


@pytest.mark.parametrize("stack", [{"keys": True}], indirect=True)
async def test_429_is_retried(drive: Any, here: Any) -> None:
    """A key has one stream: the second of two waits as it is told and tries again."""
    once = (await drive("openai_pcm"))["seconds"]
    heard = {name: (await drive(name, "twice"))["seconds"] for name in here(RETRYING)}
    assert heard == dict.fromkeys(heard, pytest.approx(2 * once, abs=2 * TOLERANCE_S))


def metrics(stack: LocalStack) -> str:
    port = stack.children["gateway"].ports["admin"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text: str = answer.read().decode()
    return text


def cancelled(stack: LocalStack) -> float:
    """Streams that ended so."""
    found = re.findall(r'^tts_streams_total\{.*outcome="cancelled".*\} (\S+)', metrics(stack), re.M)
    return sum(map(float, found))


async def nobody_is_heard(stack: LocalStack) -> None:
    pattern = r'^tts_active_streams\{.*stage="gateway".*\} (\S+)'
    async with asyncio.timeout(60):
        while sum(map(float, re.findall(pattern, metrics(stack), re.M))):
            await asyncio.sleep(0.1)
