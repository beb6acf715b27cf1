"""The Realtime classes of OpenAI's SDK, LiveKit and Pipecat: turns of text over one session."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import aiohttp
from agents import Pipeline
from common import CUT_AFTER_S, KEY, LONG, SENTENCES, Enough, Heard, main

_HZ = 24_000


class Failed(Exception):
    """The session told an error, or a response ended in one."""


async def _ask(connection: Any, text: str) -> None:
    content = [{"type": "input_text", "text": text}]
    item = {"type": "message", "role": "user", "content": content}
    await connection.conversation.item.create(item=item)
    await connection.response.create()


async def hear(connection: Any, heard: Heard) -> Any:
    """Up to the response's end; returns it. Raises Enough, with the item's id."""
    async for event in connection:
        match event.type:
            case "response.output_audio.delta":
                try:
                    heard.audio(len(base64.b64decode(event.delta)) / 2 / _HZ)
                except Enough:
                    raise Enough(event.item_id) from None
            case "response.output_audio_transcript.delta":
                start_s = (event.model_extra or {}).get("start_time")
                if start_s is not None:
                    heard.words.append((event.delta.strip(), start_s))
            case "response.done":
                return event.response
            case "error":
                raise Failed(event.error.code)
    raise Failed("closed")


def opened(url: str, model: str = "gpt-realtime") -> Any:
    import openai

    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY)
    return client.realtime.connect(model=model)


async def realtime_openai(url: str, heard: Heard, text: str) -> None:
    async with opened(url) as connection:
        await connection.session.update(
            session={"type": "realtime", "audio": {"output": {"voice": "marin", "speed": 1.0}}}
        )
        await _ask(connection, text)
        if (response := await hear(connection, heard)).status != "completed":
            raise Failed(response.status)


async def realtime_openai_interrupted(url: str, heard: Heard) -> None:
    """Cancels, and says how much was played; then the next turn of the same session."""
    cut = Heard(until_s=CUT_AFTER_S)
    async with opened(url) as connection:
        await _ask(connection, LONG)
        try:
            await hear(connection, cut)
        except Enough as enough:
            heard.cut_s, cut.until_s = cut.seconds, None
            await connection.response.cancel()
            played_ms = round(1000 * CUT_AFTER_S)
            about = {"item_id": enough.args[0], "content_index": 0}
            await connection.conversation.item.truncate(**about, audio_end_ms=played_ms)
        if (await hear(connection, cut)).status != "cancelled":
            raise Failed("not cancelled")
        heard.stray_s = cut.seconds - heard.cut_s
        await _ask(connection, SENTENCES[0])
        await hear(connection, heard)


def livekit(url: str, session: aiohttp.ClientSession, **options: Any) -> Any:
    from livekit.agents import APIConnectOptions
    from livekit.plugins.openai import realtime

    return realtime.RealtimeModel(
        base_url=f"{url}/v1",
        api_key=KEY,
        http_session=session,
        conn_options=APIConnectOptions(max_retry=0),
        **options,
    )


async def _reply(session: Any, text: str) -> Any:
    """The message of a generation that answers a text of the user."""
    context = session.chat_ctx.copy()
    context.add_message(role="user", content=text)
    await session.update_chat_ctx(context)
    generation = await session.generate_reply(instructions="Say nothing of this.")
    return await anext(aiter(generation.message_stream))


async def take(message: Any, heard: Heard) -> None:
    """Its frames, and its words as they are timed."""

    async def words() -> None:
        async for word in message.text_stream:
            if getattr(word, "start_time", None):
                heard.words.append((str(word).strip(), float(word.start_time)))
            elif str(word).strip() and not heard.words:
                heard.words.append((str(word).strip(), 0.0))

    reading = asyncio.create_task(words())
    try:
        async for frame in message.audio_stream:
            heard.audio(frame.duration)
        await reading
    finally:
        reading.cancel()


async def realtime_livekit(url: str, heard: Heard, text: str) -> None:
    async with aiohttp.ClientSession() as http:
        session = livekit(url, http).session()
        failed: list[Exception] = []
        session.on("error", lambda event: failed.append(event.error))
        replying = asyncio.create_task(_reply(session, text))
        while not (replying.done() or failed):
            await asyncio.sleep(0.01)
        if failed:
            replying.cancel()
            raise failed[0]
        await take(await replying, heard)
        await session.aclose()


async def realtime_livekit_interrupted(url: str, heard: Heard) -> None:
    """`interrupt` and `truncate`, as an agent's session calls them; then the next reply."""
    async with aiohttp.ClientSession() as http:
        session = livekit(url, http).session()
        message, cut = await _reply(session, LONG), Heard(until_s=CUT_AFTER_S)
        try:
            await take(message, cut)
        except Enough:
            heard.cut_s, cut.until_s = cut.seconds, None
            session.interrupt()
            played_ms = round(1000 * CUT_AFTER_S)
            about = {"message_id": message.message_id, "modalities": ["audio"]}
            session.truncate(**about, audio_end_ms=played_ms)
        await take(await _reply(session, SENTENCES[0]), heard)
        await session.aclose()


class _Talk(Pipeline):
    """The service alone; its context comes as aggregators bring it. The first turn has a past."""

    def __init__(self, url: str, heard: Heard) -> None:
        from pipecat.processors.aggregators.llm_context import LLMContext
        from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService

        address = f"{url.replace('http', 'ws')}/v1/realtime"
        service = OpenAIRealtimeLLMService(api_key=KEY, base_url=address)
        self._context = LLMContext()
        super().__init__(service, heard)

    async def begin(self, text: str) -> None:
        from pipecat.frames.frames import LLMContextFrame

        said = (("user", "Who is there?"), ("assistant", "It is I."), ("user", text))
        messages: Any = [{"role": role, "content": content} for role, content in said]
        self._context.add_messages(messages)
        await self._task.queue_frame(LLMContextFrame(self._context))

    async def go_on(self, text: str) -> None:
        from pipecat.frames.frames import LLMContextFrame, LLMMessagesAppendFrame
        from pipecat.processors.frame_processor import FrameDirection

        messages: Any = [{"role": "user", "content": text}]
        await self._task.queue_frame(LLMMessagesAppendFrame(messages=messages))
        await asyncio.sleep(0.2)  # the two directions are two queues
        await self._task.queue_frame(LLMContextFrame(self._context), FrameDirection.UPSTREAM)


async def realtime_pipecat(url: str, heard: Heard, text: str) -> None:
    pipeline = _Talk(url, heard)

    async def feed() -> None:
        await pipeline.begin(text)
        await pipeline.first_audio()
        await pipeline.quiet()

    await pipeline.run(feed)


async def realtime_pipecat_interrupted(url: str, heard: Heard) -> None:
    """The user speaks: a frame that truncates what is spoken; then the next turn."""
    pipeline = _Talk(url, heard)

    async def feed() -> None:
        await pipeline.interrupted(pipeline.begin(LONG))
        await pipeline.go_on(SENTENCES[0])
        await pipeline.quiet()

    await pipeline.run(feed)


if __name__ == "__main__":
    main(
        {
            "realtime_openai": realtime_openai,
            "realtime_livekit": realtime_livekit,
            "realtime_pipecat": realtime_pipecat,
        },
        {
            "realtime_openai": realtime_openai_interrupted,
            "realtime_livekit": realtime_livekit_interrupted,
            "realtime_pipecat": realtime_pipecat_interrupted,
        },
    )
