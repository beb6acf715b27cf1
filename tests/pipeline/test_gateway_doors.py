"""Both doors of the gateway, with all services as processes behind them."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect

from antiphon.stack import LocalStack

TEXT = "The tide came in before dawn. It was slow, and silver; can you hear the bells?"
FAKE = [{"engine": "fake"}]
BODY = {"input": TEXT, "seed": 5, "sample_rate": 16_000}


async def posted(stack: LocalStack, **body: Any) -> httpx.Response:
    async with httpx.AsyncClient(base_url=stack.url, timeout=30) as http:
        return await http.post("/v1/audio/speech", json={**BODY, **body})


async def typed(stack: LocalStack, pieces: list[str]) -> tuple[bytes, dict[str, Any]]:
    """The audio and the `audio.done` of a text that is typed in `pieces`."""
    pcm = b""
    async with connect(stack.url.replace("http", "ws") + "/v1/audio/speech/stream") as socket:
        messages = [{"type": "session.config", "seed": 5}]
        messages += [{"type": "input.text", "text": piece} for piece in pieces]
        for message in [*messages, {"type": "input.done"}]:
            await socket.send(json.dumps(message))
        async for data in socket:
            if isinstance(data, bytes):
                pcm += data
            elif (message := json.loads(data))["type"] in ("audio.done", "error"):
                return pcm, message
    raise AssertionError("the socket closed without an end")


@pytest.mark.parametrize("stack", FAKE, indirect=True)
async def test_every_way_in_gives_the_same_samples(stack: LocalStack) -> None:
    whole = await posted(stack, stream=False, response_format="wav")
    assert whole.status_code == 200, whole.text
    streamed = await posted(stack, response_format="pcm")
    assert streamed.content == whole.content[44:]
    at_once, done = await typed(stack, [TEXT])
    assert at_once == streamed.content
    assert (done["outcome"], done["samples"]) == ("ok", len(at_once) // 2)
    by_word, _ = await typed(stack, [f"{word} " for word in TEXT.split()])
    assert by_word == at_once
    by_letter, _ = await typed(stack, list(TEXT))
    assert by_letter == at_once


@pytest.mark.parametrize("stack", FAKE, indirect=True)
async def test_the_playground_needs_nothing_from_outside(stack: LocalStack) -> None:
    async with httpx.AsyncClient(base_url=stack.url) as http:
        page = await http.get("/")
        models = (await http.get("/v1/models")).json()["data"]
        voices = (await http.get("/v1/audio/voices")).json()["voices"]
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "<script src" not in page.text
    assert '<link rel="stylesheet"' not in page.text
    assert [model["id"] for model in models] == ["vesper"]
    assert {voice["id"] for voice in voices} == {"slt", "rms", "awb"}
