"""OpenAI's Agents SDK: its realtime runner, an interruption, and spoken turns.

In a folder of its own, because the package is called `agents`, as are the drivers of LiveKit and
Pipecat.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from agents.realtime import RealtimeAgent, RealtimeRunner

sys.path.append(str(Path(__file__).resolve().parents[1]))

from common import CUT_AFTER_S, KEY, LONG, SENTENCES, Enough, Heard, main
from sounds import TURN, blocks

_HZ = 24_000
# With a model that hears; without one, a name of OpenAI's.
MODEL = os.environ.get("CLIENT_MODEL") or "gpt-realtime"
VOICE = os.environ.get("CLIENT_VOICE", "")


class Failed(Exception):
    """The session told an error."""


async def _session(url: str, **settings: Any) -> Any:
    """The model is told in the address alone: the SDK's updates name one of OpenAI's."""
    runner = RealtimeRunner(RealtimeAgent(name="Someone", instructions="Be brief."))
    address = f"{url.replace('http', 'ws')}/v1/realtime?model={MODEL}"
    config: Any = {"url": address, "api_key": KEY, "initial_model_settings": settings}
    return await runner.run(model_config=config)


async def _hear(session: Any, heard: Heard) -> None:
    """Up to the response's end; raises Enough."""
    async for event in session:
        match event.type:
            case "audio":
                heard.audio(len(event.audio.data) / 2 / _HZ)
            case "error":
                raise Failed(str(event.error))
            case "history_updated" | "history_added":
                items = event.history if event.type == "history_updated" else [event.item]
                said = [item for item in items if getattr(item, "role", "") == "assistant"]
                for content in said[-1].content if said else ():
                    heard.spelled = getattr(content, "transcript", None) or heard.spelled
            case "raw_model_event" if event.data.type == "turn_ended":
                return
    raise Failed("closed")


async def agents_openai(url: str, heard: Heard, text: str) -> None:
    async with await _session(url) as session:
        await session.send_message(text)
        await _hear(session, heard)


async def agents_openai_interrupted(url: str, heard: Heard) -> None:
    """`interrupt` truncates what is spoken; the server stops at that."""
    cut = Heard(until_s=CUT_AFTER_S)
    async with await _session(url) as session:
        await session.send_message(LONG)
        try:
            await _hear(session, cut)
        except Enough:
            heard.cut_s, cut.until_s = cut.seconds, None
            await session.interrupt()
        await _hear(session, cut)
        heard.stray_s = cut.seconds - heard.cut_s
        await session.send_message(SENTENCES[0])
        await _hear(session, heard)


_SPOKEN = {
    "voice": VOICE,
    "turn_detection": {"type": "server_vad", "silence_duration_ms": 300},
    "max_output_tokens": 150,
}


async def _say(session: Any, *parts: tuple[int, float]) -> None:
    for block in blocks(*parts):
        await session.send_audio(block)


async def _answer(session: Any, heard: Heard) -> None:
    """The response's words and length, as drivers of spoken turns note them."""
    answer = Heard()
    await _hear(session, answer)
    heard.seconds += answer.seconds
    heard.words.append((answer.spelled, answer.seconds))


async def agents_spoken(url: str, heard: Heard, text: str) -> None:
    """The server finds the turns: the runner has no other way to have one answered."""
    del text
    async with await _session(url, **_SPOKEN) as session:
        for _ in range(2):
            await _say(session, *TURN)
            await _answer(session, heard)


async def agents_spoken_interrupted(url: str, heard: Heard) -> None:
    cut = Heard(until_s=CUT_AFTER_S)
    async with await _session(url, **_SPOKEN) as session:
        await _say(session, *TURN)
        try:
            await _hear(session, cut)
        except Enough:
            heard.cut_s, cut.until_s = cut.seconds, None
            await _say(session, *TURN[1:])
        await _hear(session, cut)
        await _answer(session, heard)


if __name__ == "__main__":
    main(
        {"agents_openai": agents_openai, "agents_spoken": agents_spoken},
        {"agents_openai": agents_openai_interrupted, "agents_spoken": agents_spoken_interrupted},
    )
