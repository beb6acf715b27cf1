"""Antiphon's own socket, held to recorded sessions."""

import asyncio
import json
from typing import Any

import pytest

from gateway.protocols.native import STREAM_PATH
from tests.pipeline.gateway.recorded.tape import PCM, Play, Tape, Wire, wired
from tests.waits import until

DONE = '"audio.done"'
ERROR = '"type":"error"'


async def configured(wire: Wire, **fields: Any) -> None:
    await wire.say(type="session.config", **{"seed": 4, "voice": "awb", **fields})
    await wire.until("session.created")


async def text(wire: Wire, said: str, **fields: Any) -> None:
    await wire.say(type="input.text", text=said, **fields)
    await wire.say(type="input.done", **fields)


async def deserted(stand: Any) -> None:
    await until(lambda: not stand.gateway.sockets.sessions)


async def test_native(stand: Any, tape: Tape, play: Play) -> None:
    url = stand.url + STREAM_PATH

    tape.title("requests one after another, the last of them piece by piece")
    async with wired(tape, url) as wire:
        await configured(wire)
        await text(wire, "The tide is in.")
        await text(wire, "And it is out.")
        await wire.until(DONE)
        await wire.until(DONE)
        await wire.say(type="session.config", seed=5)
        await wire.until("session.updated")
        await wire.say(type="input.text", text="The tide ")
        await wire.until(PCM)
        await wire.say(type="input.flush")
        await wire.say(type="input.text", text="is in.")
        await wire.until(PCM)
        await wire.say(type="session.close")
        await wire.closed()

    tape.title("contexts beside the session's own requests")
    async with wired(tape, url) as wire:
        await configured(wire)
        await text(wire, "wait for me", context_id="slow")
        await wire.until('"audio.start"')
        await text(wire, "not for me", context_id="fast")
        await wire.until(DONE)
        await text(wire, "nor for me")
        await wire.until(DONE)
        play.go.set()
        await wire.until(DONE)
        await text(wire, "once more", context_id="fast")
        await wire.until(DONE)
        await wire.say(type="session.close")
        await wire.closed()
    play.go.clear()

    tape.title("cancel: what is spoken, what waits, a context, a text that is coming in")
    async with wired(tape, url) as wire:
        await configured(wire)
        await text(wire, "hold on")
        await wire.until(PCM)
        await text(wire, "never spoken")
        await wire.say(type="cancel", played_s=0.02)
        await wire.until(DONE)
        await wire.until(DONE)
        await text(wire, "hold on", context_id="c")
        await wire.until("audio.chunk")
        await wire.say(type="cancel", context_id="c", played_s=0.01)
        await wire.until(DONE)
        await wire.say(type="cancel", context_id="c")
        await wire.say(type="input.text", text="Never ")
        await wire.until(PCM)
        await wire.say(type="cancel")
        await wire.say(type="input.text", text="mind.")
        await wire.say(type="input.done")
        await wire.until(DONE)
        await text(wire, "next")
        await wire.until(DONE)
        await wire.say(type="session.close")
        await wire.closed()

    tape.title("requests that fail, each of which ends alone")
    async with wired(tape, url) as wire:
        await configured(wire)
        for said in ("fail now", "...", "spoken"):
            await text(wire, said)
            await wire.until(ERROR, DONE)
            await text(wire, said, context_id="c")
            await wire.until(ERROR, DONE)
        await wire.say(type="session.close")
        await wire.closed()

    tape.title("messages that are refused")
    async with wired(tape, url) as wire:
        for message in (
            {"type": "input.text", "text": "early"},
            {"type": "input.text", "text": "early", "context_id": "c"},
            {"type": "session.config", "voice": "hal"},
            {"type": "session.config", "flavour": "mint"},
            {"type": "sing"},
        ):
            await wire.say(**message)
            await wire.until(ERROR)
        await configured(wire)
        await wire.say(type="input.done")
        await wire.until(ERROR)
        await wire.say(type="input.done", context_id="c")
        await wire.until(ERROR)
        await wire.say(b"\x00\x01")
        await wire.closed()

    tape.title("a stage that takes nothing: fatal to the session, not to one with contexts")
    async with wired(tape, url) as wire:
        await configured(wire)
        await text(wire, "refuse me", context_id="c")
        await wire.until(ERROR)
        await text(wire, "hold on", context_id="other")
        await wire.until("audio.chunk")
        await text(wire, "refuse me")
        await wire.closed()


async def test_native_resumed(stand: Any, tape: Tape, play: Play) -> None:
    url = stand.url + STREAM_PATH
    for context in (None, "c"):
        about = {"context_id": context} if context else {}
        tape.title(f"a lost listener comes back, context {context}")
        async with wired(tape, url) as wire:
            await configured(wire, resumable=True)
            await text(wire, "still here", **about)
            start = json.loads(await wire.until('"audio.start"'))
            await wire.until(PCM, "audio.chunk")
            wire.socket.transport.abort()
        await deserted(stand)
        play.go.set()
        await play.over.wait()
        async with wired(tape, url) as wire:
            await configured(wire, resumable=True)
            again = {"request_id": start["request_id"], "token": start["resume_token"]}
            tape.note("session.resume from 1600")
            message = {"type": "session.resume", **again, "from_sample": 1600, **about}
            await wire.socket.send(json.dumps(message))
            await wire.until(DONE)
            await wire.say(type="session.resume", request_id="a" * 22, token="b", **about)
            await wire.until(ERROR)
            await wire.say(type="session.close")
            await wire.closed()
        play.go.clear()
        play.over.clear()


async def test_native_handed_over(stand: Any, tape: Tape, play: Play) -> None:
    tape.title("a gateway that is out of time")
    async with wired(tape, stand.url + STREAM_PATH) as wire:
        await configured(wire, resumable=True)
        await text(wire, "hold on")
        await wire.until(PCM)
        await text(wire, "hold on", context_id="c")
        await wire.until("audio.chunk")
        draining = asyncio.create_task(stand.gateway.drain(0.0))
        await wire.closed()
        play.go.set()
        await draining


async def test_native_drained(stand: Any, tape: Tape, play: Play) -> None:
    tape.title("a gateway that shuts down finishes what was asked for")
    async with wired(tape, stand.url + STREAM_PATH) as wire:
        await configured(wire)
        await text(wire, "hold on")
        await wire.until(PCM)
        draining = asyncio.create_task(stand.gateway.drain())
        await asyncio.sleep(0)
        play.go.set()
        await wire.closed()
        await draining


@pytest.mark.parametrize(
    "settings",
    [{"idle_timeout_s": 0.3, "max_text_chars": 10, "max_contexts": 1, "max_queued_requests": 1}],
    indirect=True,
)
async def test_native_limits(stand: Any, tape: Tape, play: Play) -> None:
    tape.title("too much text, too many texts, and nothing for too long")
    async with wired(tape, stand.url + STREAM_PATH) as wire:
        await configured(wire)
        await text(wire, "x" * 11)
        await wire.until(ERROR)
        await text(wire, "x" * 11, context_id="c")
        await wire.until(ERROR)
        await wire.until(ERROR)
        await text(wire, "hold on", context_id="a")
        await wire.until("audio.chunk")
        await text(wire, "hold on", context_id="b")
        await wire.until(ERROR)
        await text(wire, "hold on")
        await wire.until(PCM)
        await text(wire, "one")
        await text(wire, "two")
        await wire.until(ERROR)
        play.go.set()
        for _ in range(3):
            await wire.until(DONE)
        await wire.closed()
