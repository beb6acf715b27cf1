"""Contexts, sentence boundaries, phones, pauses and offsets on Antiphon's own socket."""

import asyncio
from typing import Any

import pytest

from gateway.protocols.shared.sockets import WebSocketTransport
from ttscommon.wire.messages import TextPiece
from ttscommon.wire.pieces import Boundary, Pause, Phones
from ttscommon.wire.subjects import TEXT


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
        await talk.say(socket, "long")
        await talk.until(socket, "pcm")
        await talk.say(socket, "short", context_id="c")
        await taken.wait()
        await talk.send(socket, "cancel")
        await stand.stage.freed(stand.stage.jobs[0].request_id)
        go.set()
        messages = [await talk.receive(socket) for _ in range(4)]
    done = {m.get("context_id"): m["outcome"] for m in messages if m["type"] == "audio.done"}
    assert done == {None: "cancelled", "c": "ok"}


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
        await talk.say(socket, '<phoneme ph="taɪd">tide</phoneme>')
        await talk.until(socket, "audio.done")
    markup = Phones("tide", "taɪd", "ipa", optional=True)
    assert pieces == [Boundary(), Phones("tide", "taɪd", "ipa"), Pause(0.5), markup]
