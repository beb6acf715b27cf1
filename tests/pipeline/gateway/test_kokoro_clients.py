"""Clients of Kokoro-FastAPI, Speaches and Hugging Face, as they are."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

TEXT = "The tide is in."


@pytest.mark.parametrize("model", ["kokoro", "speaches-ai/Kokoro-82M-v1.0-ONNX"])
async def test_their_models_and_voices_are_answered(stand: Any, model: str) -> None:
    body = {"model": model, "input": TEXT, "voice": "am_adam(1)+af_sky(2)"}
    answer = await stand.http.post("/v1/audio/speech", json=body)
    assert (answer.status_code, answer.headers["x-voice"]) == (200, "awb")  # the male one


@pytest.mark.parametrize("stream", [True, False])
async def test_captioned_speech_tells_when_words_begin_and_end(stand: Any, stream: bool) -> None:
    async def script(performance: Any) -> None:
        for word in ("The ", "tide "):
            await performance.say(word, word=True)
        await performance.end()

    stand.stage.script = script
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


async def test_hugging_faces_inputs_are_the_text(stand: Any) -> None:
    answer = await stand.http.post("/v1/audio/speech", json={"inputs": TEXT, "parameters": {}})
    assert answer.status_code == 200, answer.text
    assert stand.stage.jobs[-1].request.text == TEXT
    missing = await stand.http.post("/v1/audio/speech", json={})
    assert missing.json()["error"]["param"] == "input"
