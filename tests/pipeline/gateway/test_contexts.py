"""Contexts, sentence boundaries, phones, pauses and offsets on Antiphon's own socket."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import numpy as np
import pytest

from gateway.protocols.shared.sockets import WebSocketTransport
from tests.waits import TIMEOUT_S
from ttscommon.wire.messages import TextPiece
from ttscommon.wire.pieces import Boundary, Pause, Phones
from ttscommon.wire.subjects import TEXT


def pcm(messages: list[dict[str, Any]], context: str) -> Any:
    chunks = [m for m in messages if m["type"] == "audio.chunk" and m["context_id"] == context]
    return np.frombuffer(b"".join(base64.b64decode(m["audio"]) for m in chunks), "<i2")


async def test_contexts_do_not_wait_for_each_other(stand: Any, talk: Any) -> None:
    go = asyncio.Event()

    async def script(performance: Any) -> None:
        if performance.job.request.text == "slow":
            await go.wait()
        await talk.recite(performance)

    stand.stage.script = script
    async with stand.session(seed=0) as socket:
        for name in ("slow", "fast"):
            await talk.send(socket, "input.text", context_id=name, text=name)
            await talk.send(socket, "input.done", context_id=name)
        first = await talk.until(socket, "audio.done")
        go.set()
        second = await talk.until(socket, "audio.done")
        await talk.send(socket, "session.close")
        assert (await talk.receive(socket))["type"] == "session.done"
    assert first[-1]["context_id"] == "fast"
    assert second[-1]["context_id"] == "slow"
    assert np.array_equal(pcm(first, "fast"), talk.sound("fast"))
    assert np.array_equal(pcm(second, "slow"), talk.sound("slow"))
    mine = [m["sequence"] for m in (*first, *second) if m.get("context_id") == "slow"]
    assert mine == list(range(len(mine)))
    words = [w for m in first if m["type"] == "audio.words" for w in m["words"]]
    assert len(words[0]["characters_s"]) == len(words[0]["word"])


async def test_a_context_is_cancelled_where_its_listener_was(stand: Any, talk: Any) -> None:
    async def script(performance: Any) -> None:
        await performance.say("first")
        await asyncio.Event().wait()

    stand.stage.script = script
    async with stand.session() as socket:
        await talk.send(socket, "input.text", context_id="c", text="long")
        await talk.until(socket, "audio.chunk")
        await talk.send(socket, "cancel", context_id="c", played_s=0.02)
        done = (await talk.until(socket, "audio.done"))[-1]
    assert (done["outcome"], done["played_s"]) == ("cancelled", 0.02)


async def test_cancelling_a_request_of_the_session_leaves_its_contexts_alone(
    stand: Any, talk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, go = asyncio.Event(), asyncio.Event()
    send = WebSocketTransport.send

    async def slowly(self: WebSocketTransport, data: str | bytes) -> None:
        if "audio.chunk" in str(data):
            taken.set()
            await go.wait()
        await send(self, data)

    async def script(performance: Any) -> None:
        await performance.say("first")
        if performance.job.request.text == "long":
            await asyncio.Event().wait()
        await performance.end()

    stand.stage.script = script
    monkeypatch.setattr(WebSocketTransport, "send", slowly)
    async with stand.session() as socket:
        await talk.send(socket, "input.text", text="long")
        await talk.send(socket, "input.done")
        await talk.until(socket, "pcm")
        await talk.send(socket, "input.text", context_id="c", text="short")
        await talk.send(socket, "input.done", context_id="c")
        await taken.wait()
        await talk.send(socket, "cancel")
        async with asyncio.timeout(TIMEOUT_S):
            await stand.stage.cancelled_event(stand.stage.jobs[0].request_id).wait()
        go.set()
        messages = [await talk.receive(socket) for _ in range(4)]
    done = {m.get("context_id"): m["outcome"] for m in messages if m["type"] == "audio.done"}
    assert done == {None: "cancelled", "c": "ok"}


async def test_cancel_says_back_how_far_the_listener_was(stand: Any, talk: Any) -> None:
    async def script(performance: Any) -> None:
        await performance.say("first")
        await asyncio.Event().wait()

    stand.stage.script = script
    async with stand.session() as socket:
        await talk.send(socket, "input.text", text="long")
        await talk.until(socket, "pcm")
        await talk.send(socket, "cancel", played_s=0.01)
        done = (await talk.until(socket, "audio.done"))[-1]
    assert (done["outcome"], done["played_s"]) == ("cancelled", 0.01)


async def test_boundaries_phones_and_pauses_reach_the_talker(stand: Any, talk: Any) -> None:
    pieces: list[Any] = []

    async def script(performance: Any) -> None:
        request = performance.job.request
        pieces.extend(mark.piece for mark in request.marks)
        if not request.text_final:
            async with performance.bus.reader(TEXT, request.request_id) as reader:
                async for record in reader:
                    if isinstance(record, TextPiece):
                        pieces.extend(mark.piece for mark in record.marks)
        await performance.say("done")
        await performance.end()

    stand.stage.script = script
    async with stand.session() as socket:
        await talk.send(socket, "input.text", text="One")
        await talk.send(socket, "input.flush")
        await talk.send(socket, "input.phones", text="tide", phones="taɪd", alphabet="ipa")
        await talk.send(socket, "input.pause", seconds=0.5)
        await talk.send(socket, "input.text", text='<phoneme ph="taɪd">tide</phoneme>')
        await talk.send(socket, "input.done")
        await talk.until(socket, "audio.done")
    markup = Phones("tide", "taɪd", "ipa", optional=True)
    assert pieces == [Boundary(), Phones("tide", "taɪd", "ipa"), Pause(0.5), markup]


@pytest.mark.parametrize("settings", [{"max_contexts": 1}], indirect=True)
async def test_too_many_contexts_are_refused_and_the_socket_stays(stand: Any, talk: Any) -> None:
    async with stand.session() as socket:
        await talk.send(socket, "input.text", context_id="a", text="one")
        await talk.send(socket, "input.text", context_id="b", text="two")
        error = (await talk.until(socket, "error"))[-1]
        await talk.send(socket, "input.done", context_id="a")
        await talk.until(socket, "audio.done")
    assert error["error"]["code"] == "too_many_contexts"
