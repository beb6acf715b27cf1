"""Clients of Kokoro-FastAPI, Speaches and Hugging Face, as they are."""

import asyncio
import base64
import contextlib
import io
import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

import numpy as np
import torch

from talker.service import answered
from ttscommon.wire import subjects
from ttscommon.wire.lookups import PhonesFound

TEXT = "The tide is in."


async def test_captioned_speech_tells_when_words_begin_and_end(stand: Any) -> None:
    async def script(performance: Any) -> None:
        for word in ("The ", "tide "):
            await performance.say(word, word=True)
        await performance.end()

    stand.stage.script = script
    for stream in (True, False):
        body = {
            "model": "kokoro", "input": TEXT, "voice": "af_bella", "response_format": "pcm",
            "stream": stream, "return_timestamps": True, "speed": 1,
        }  # fmt: skip
        answer = await stand.http.post("/dev/captioned_speech", json=body)
        parts = [json.loads(line) for line in answer.text.splitlines()]
        audio = b"".join(base64.b64decode(part["audio"]) for part in parts)
        words = [one for part in parts for one in part["timestamps"]]
        assert (len(parts) == 1) is not stream
        assert {part["audio_format"] for part in parts} == {"audio/pcm"}
        assert [(one["word"], one["start_time"], one["end_time"]) for one in words] == [
            ("The ", 0.0, 0.04),
            ("tide ", 0.04, 0.09),
        ]
        assert len(audio) == 2 * 0.09 * 24_000


class Tables:
    """A family that tells everything."""

    def phones(self, text: str, language: str) -> PhonesFound:
        return PhonesFound(f"{text} ({language})", (1, 2))

    def style(self, voice: str) -> Any:
        return np.arange(6, dtype=np.float32).reshape(3, 2)


class Nothing:
    """One that reads letters."""

    def phones(self, text: str, language: str) -> None:
        return None

    def style(self, voice: str) -> None:
        return None


@contextlib.asynccontextmanager
async def talker(stand: Any, family: Any, go: asyncio.Event | None = None) -> AsyncIterator[None]:
    """The stage is asked about its model, and answers when it may."""
    bus = stand.stage.bus

    async def answer(message: Any) -> None:
        if go is not None:
            await go.wait()
        await message.respond(await answered(family, message.data))

    subject = subjects.lookup(stand.stage.report().worker_id)
    subscription = await bus.link.subscribe(subject, answer)
    await bus.link.client.flush()
    yield
    await bus.link.unsubscribe(subscription)


async def test_a_text_is_told_in_phones(stand: Any) -> None:
    async with talker(stand, Tables()):
        for letter, tag in (("a", "en-US"), ("b", "en-GB"), ("en-IE", "en-IE")):
            body = {"text": "The tide\u200b.", "language": letter}
            answer = await stand.http.post("/dev/phonemize", json=body)
            assert answer.json() == {"phonemes": f"The tide. ({tag})", "tokens": [1, 2]}


async def test_combined_voices_come_as_a_file_of_pytorchs(stand: Any) -> None:
    async with talker(stand, Tables()):
        for given in ("af_bella+af_sky", ["af_bella", "af_sky"]):
            answer = await stand.http.post("/v1/audio/voices/combine", json=given)
            assert answer.status_code == 200, answer.text
            assert answer.headers["content-type"] == "application/octet-stream"
            assert answer.headers["content-disposition"].endswith('.pt"')
            tensor = torch.load(io.BytesIO(answer.content), weights_only=True)
            assert (tensor.dtype, tuple(tensor.shape)) == (torch.float32, (3, 1, 2))
            assert tensor.flatten().tolist() == [0, 1, 2, 3, 4, 5]


WRONG: Final[tuple[tuple[str, Any], ...]] = (
    ("/dev/phonemize", {}),
    ("/dev/phonemize", {"text": "..."}),
    ("/dev/phonemize", {"text": "a" * 21_000}),
    ("/v1/audio/voices/combine", {"voices": 7}),
    ("/v1/audio/voices/combine", ["af_sky"] * 9),
    ("/v1/audio/voices/combine", " "),
)


async def test_what_is_no_question_or_has_no_answer_is_told_so(stand: Any) -> None:
    """A model without phones or tables, and a talker of a release that is not asked."""

    async def refusals() -> list[tuple[int, str]]:
        answers = [
            await stand.http.post("/dev/phonemize", json={"text": "The tide."}),
            await stand.http.post("/v1/audio/voices/combine", json="af_bella"),
        ]
        return [(answer.status_code, answer.json()["error"]["code"]) for answer in answers]

    assert await refusals() == [(503, "unavailable")] * 2
    async with talker(stand, Nothing()):
        assert await refusals() == [(400, "unsupported")] * 2
    for path, body in WRONG:
        answer = await stand.http.post(path, json=body)
        assert answer.status_code == 400, answer.text


async def test_few_are_asked_at_once(stand: Any) -> None:
    go = asyncio.Event()
    post = partial(stand.http.post, "/dev/phonemize", json={"text": TEXT})
    async with talker(stand, Tables(), go), asyncio.timeout(10):
        waiting = [asyncio.create_task(post()) for _ in range(4)]
        while len(stand.gateway.context.lookups) < 4:
            await asyncio.sleep(0)
        assert (await post()).status_code == 429
        go.set()
        assert {answer.status_code for answer in await asyncio.gather(*waiting)} == {200}
