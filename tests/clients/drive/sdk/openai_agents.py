"""OpenAI's Agents SDK: its realtime runner, and an interruption.

In a folder of its own, because the package is called `agents`, as are the drivers of LiveKit and
Pipecat.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from agents.realtime import RealtimeAgent, RealtimeRunner

sys.path.append(str(Path(__file__).resolve().parents[1]))

from common import CUT_AFTER_S, KEY, LONG, SENTENCES, Enough, Heard, main

_HZ = 24_000


class Failed(Exception):
    """The session told an error."""


async def _session(url: str) -> Any:
    runner = RealtimeRunner(RealtimeAgent(name="Someone", instructions="Be brief."))
    address = f"{url.replace('http', 'ws')}/v1/realtime?model=gpt-realtime"
    config: Any = {"url": address, "api_key": KEY}
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


if __name__ == "__main__":
    main({"agents_openai": agents_openai}, {"agents_openai": agents_openai_interrupted})
