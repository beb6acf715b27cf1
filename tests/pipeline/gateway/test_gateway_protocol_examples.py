"""docs/protocol.md, run: its examples are sent, and the answers must look like its answers."""

import json
import re
from pathlib import Path
from typing import Any

TEXT = (Path(__file__).parents[3] / "docs/protocol.md").read_text()


def examples(kind: str) -> list[dict[str, Any]]:
    blocks = re.findall(rf"```json {kind}\n(.+?)\n```", TEXT, re.S)
    assert blocks, f"the document has no {kind} examples"
    return [json.loads(block) for block in blocks]


def shape(value: Any) -> Any:
    """A value with its scalars replaced by their kinds; null matches anything of its place."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return "number" if isinstance(value, int | float) else type(value).__name__


async def test_the_session_in_the_document_happens_like_that(stand: Any, talk: Any) -> None:
    documented = {message["type"]: message for message in examples("server")}
    async with stand.socket() as socket:
        received: dict[str, dict[str, Any]] = {}
        for message in examples("client"):
            await socket.send(json.dumps(message))
        while "session.done" not in received:
            message = await talk.receive(socket)
            received.setdefault(message["type"], message)
    del received["pcm"]
    assert set(received) == set(documented) - {"error"}
    for kind, message in received.items():
        expected = shape(documented[kind])
        if message.get("min_slack_s", 0) is None:
            expected["min_slack_s"] = "NoneType"
        assert shape(message) == expected, kind
    assert received["session.created"]["limits"] == documented["session.created"]["limits"]


async def test_the_error_in_the_document_is_what_comes(stand: Any, talk: Any) -> None:
    (documented,) = [m for m in examples("server") if m["type"] == "error"]
    async with stand.socket() as socket:
        await talk.send(socket, "input.text", text="early")
        assert await talk.receive(socket) == documented


async def test_the_http_examples_work(stand: Any) -> None:
    (body,) = examples("http")
    assert (await stand.http.post("/v1/audio/speech", json=body)).status_code == 200
    (documented,) = examples("error")
    refused = await stand.http.post("/v1/audio/speech", json={**body, "voice": "hal"})
    assert shape(refused.json()) == shape(documented)
    (lexicon,) = examples("lexicon")
    made = await stand.http.post("/v1/audio/lexicons", json=lexicon)
    assert made.json()["entry_count"] == 3
    (voices,) = examples("voices")
    assert shape((await stand.http.get("/v1/audio/voices")).json()) == shape(voices)
