"""The sockets of other services' clients, held to recorded sessions."""

import asyncio
from typing import Any

import pytest

from tests.pipeline.gateway.recorded.tape import PCM, Play, Tape, denied, wired

ELEVEN = "/v1/text-to-speech/anyone/{}?output_format=pcm_16000"
CARTESIA = "/tts/websocket"
DEEPGRAM = "/v1/speak?sample_rate=16000"
RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 16_000}


async def test_stream_input(stand: Any, tape: Tape, play: Play) -> None:
    url = stand.url + ELEVEN.format("stream-input")

    tape.title("text as it is written, and an empty one")
    async with wired(tape, url) as wire:
        await wire.say(text=" ", voice_settings={"speed": 1.0})
        await wire.say(text="The tide ", flush=True)
        await wire.until('"alignment":{')
        await wire.say(text="is in.")
        await wire.say(text="")
        await wire.closed()

    for name, messages in (
        ("a text that fails", [{"text": "fail now"}, {"text": ""}]),
        ("a text with nothing in it", [{"text": " "}, {"text": ""}]),
        ("a text that is none", [{"text": 5}]),
        ("a stage that takes nothing", [{"text": "refuse me"}, {"text": ""}]),
    ):
        tape.title(name)
        async with wired(tape, url) as wire:
            for message in messages:
                await wire.say(**message)
            await wire.closed()
    tape.title("no JSON")
    async with wired(tape, url) as wire:
        await wire.say("{")
        await wire.closed()
    tape.title("a format that cannot be made")
    await denied(tape, url.replace("pcm_16000", "midi"))


async def test_multi_stream_input(stand: Any, tape: Tape, play: Play) -> None:
    url = stand.url + ELEVEN.format("multi-stream-input")

    tape.title("contexts, one of which fails and one is used again")
    async with wired(tape, url) as wire:
        await wire.say(text="wait for me", context_id="slow", flush=True)
        await wire.say(context_id="slow", close_context=True)
        for name, said in (("fast", "not for me"), ("bad", "fail now"), ("fast", "again")):
            await wire.say(text=said, context_id=name, flush=True)
            await wire.say(context_id=name, close_context=True)
            await wire.until('"isFinal":true', '"error"')
        play.go.set()
        await wire.until('"isFinal":true')
        await wire.say(text="and the last")
        await wire.say(close_socket=True)
        await wire.closed()

    tape.title("messages that are refused or open nothing")
    async with wired(tape, url) as wire:
        await wire.say(text="")
        await wire.say(text="one", context_id=5)
        await wire.until('"error"')
        await wire.say("[]")
        await wire.closed()


async def test_cartesia(stand: Any, tape: Tape, play: Play) -> None:
    asked = {"model_id": "sonic-3", "voice": {"mode": "id", "id": "x"}, "output_format": RAW}

    tape.title("contexts with times and flushes, one of which fails and one is cancelled")
    async with wired(tape, stand.url + CARTESIA) as wire:

        async def say(name: str, transcript: str, **more: Any) -> None:
            await wire.say(**asked, context_id=name, transcript=transcript, **more)

        await say("slow", "wait for me")
        await say("fast", "not for me", add_timestamps=True)
        await wire.until('"done":true')
        await say("bad", "fail now")
        await wire.until('"error"')
        play.go.set()
        await wire.until('"done":true')
        play.go.clear()
        await say("c", "One.", flush=True, **{"continue": True})
        await wire.until('"chunk"')
        await say("c", "Two.", add_timestamps=True)
        await wire.until('"done":true')
        await say("long", "hold on")
        await wire.until('"chunk"')
        await wire.say(context_id="long", cancel=True)
        await say("long", "...")
        await wire.until('"done":true')
        await say("", "no context")
        await wire.until('"error"')
        await wire.say("{")
        await wire.closed()


async def test_deepgram(stand: Any, tape: Tape, play: Play) -> None:
    url = stand.url + DEEPGRAM

    tape.title("turns, one of which fails, one is cleared and one is nothing")
    async with wired(tape, url) as wire:
        for said in ("The tide ", "is in."):
            await wire.say(type="Speak", text=said)
        await wire.say(type="Flush")
        await wire.say(type="Speak", text="fail now")
        await wire.say(type="Flush")
        await wire.say(type="Flush")
        for _ in range(3):
            await wire.until("Flushed")
        await wire.say(type="Speak", text="hold on")
        await wire.say(type="Flush")
        await wire.until(PCM)
        await wire.say(type="Speak", text="never spoken")
        await wire.say(type="Clear")
        await wire.until("Cleared")
        await wire.say(type="Sing")
        await wire.until("Error")
        await wire.say(type="Speak", text=5)
        await wire.until("Error")
        await wire.say(type="Close")
        await wire.closed()

    tape.title("an encoding that cannot be made here")
    await denied(tape, url + "&encoding=mp3")


@pytest.mark.parametrize(
    "settings",
    [{"idle_timeout_s": 0.3, "max_text_chars": 10, "max_contexts": 1, "max_queued_requests": 1}],
    indirect=True,
)
async def test_vendors_limits(stand: Any, tape: Tape, play: Play) -> None:
    tape.title("multi-stream-input: too much text, too many contexts, nothing for too long")
    async with wired(tape, stand.url + ELEVEN.format("multi-stream-input")) as wire:
        await wire.say(text="x" * 11, context_id="a")
        await wire.until('"error"')
        await wire.until('"error"')
        await wire.say(text="hold on", context_id="a", flush=True)
        await wire.until('"audio":"')
        await wire.say(text="hold on", context_id="b")
        await wire.until('"error"')
        play.go.set()
        await wire.say(context_id="a", close_context=True)
        await wire.until('"isFinal":true')
        await wire.closed()
    play.go.clear()

    tape.title("deepgram: too many turns")
    async with wired(tape, stand.url + DEEPGRAM) as wire:
        await wire.say(type="Speak", text="hold on")
        await wire.say(type="Flush")
        await wire.until(PCM)
        await wire.say(type="Speak", text="one")
        await wire.until("Error")
        await wire.say(type="Close")
        await wire.closed()


async def test_vendors_drained(stand: Any, tape: Tape, play: Play) -> None:
    tape.title("a gateway that shuts down: sockets with something to say, and without")
    async with (
        wired(tape, stand.url + CARTESIA) as idle,
        wired(tape, stand.url + DEEPGRAM) as busy,
        wired(tape, stand.url + ELEVEN.format("stream-input")) as handed,
    ):
        await busy.say(type="Speak", text="hold on")
        await busy.say(type="Flush")
        await busy.until(PCM)
        await handed.say(text="wait for me", flush=True)
        draining = asyncio.create_task(stand.gateway.drain(0.5))
        await idle.closed()
        await denied(tape, stand.url + CARTESIA)
        play.go.set()
        await busy.closed()
        await handed.closed()
        await draining
