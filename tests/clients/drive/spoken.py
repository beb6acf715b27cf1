"""Spoken turns by the Realtime classes of OpenAI's SDK, LiveKit and Pipecat; the model hears.

`speak`: the client finds the turns, two of them. `interrupt`: the server does; the user speaks into
the first answer, and is answered.
"""

from __future__ import annotations

import asyncio
import base64
import os
from typing import Any

import aiohttp
from agents import Pipeline
from common import CUT_AFTER_S, KEY, Enough, Heard, main
from realtime import Failed, hear, livekit, opened, take
from sounds import HZ, TURN, blocks

MODEL = os.environ.get("CLIENT_MODEL", "")
VOICE = os.environ.get("CLIENT_VOICE", "")
# Of an answer: some seconds of it.
IDS = 150
_SERVER_TURNS = {"type": "server_vad", "silence_duration_ms": 300}


def note(heard: Heard, answer: Heard) -> None:
    """An answer's words, and how long it is."""
    heard.seconds += answer.seconds
    heard.words.append((" ".join(word for word, _ in answer.words), answer.seconds))


def _settings(turns: Any) -> Any:
    audio = {"input": {"turn_detection": turns}, "output": {"voice": VOICE}}
    return {"type": "realtime", "audio": audio, "max_output_tokens": IDS}


async def _say(connection: Any, *parts: tuple[int, float]) -> None:
    for block in blocks(*parts):
        await connection.input_audio_buffer.append(audio=base64.b64encode(block).decode())


async def spoken_openai(url: str, heard: Heard, text: str) -> None:
    del text
    async with opened(url, MODEL) as connection:
        await connection.session.update(session=_settings(None))
        for _ in range(2):
            await _say(connection, *TURN)
            await connection.input_audio_buffer.commit()
            await connection.response.create()
            answer = Heard()
            if (response := await hear(connection, answer)).status != "completed":
                raise Failed(response.status)
            note(heard, answer)


async def spoken_openai_interrupted(url: str, heard: Heard) -> None:
    cut, answer = Heard(until_s=CUT_AFTER_S), Heard()
    async with opened(url, MODEL) as connection:
        await connection.session.update(session=_settings(_SERVER_TURNS))
        await _say(connection, *TURN)
        try:
            await hear(connection, cut)
        except Enough:
            heard.cut_s, cut.until_s = cut.seconds, None
            await _say(connection, *TURN[1:])
        if (await hear(connection, cut)).status != "cancelled":
            raise Failed("not cancelled")
        if (response := await hear(connection, answer)).status != "completed":
            raise Failed(response.status)
    note(heard, answer)


def _push(session: Any, *parts: tuple[int, float]) -> None:
    from livekit import rtc

    for block in blocks(*parts):
        session.push_audio(rtc.AudioFrame(block, HZ, 1, len(block) // 2))


async def _answer(generation: Any, answer: Heard) -> Any:
    """The message of a generation, taken to its end."""
    message = await anext(aiter(generation.message_stream))
    await take(message, answer)
    return message


async def spoken_livekit(url: str, heard: Heard, text: str) -> None:
    del text
    async with aiohttp.ClientSession() as http:
        model = livekit(url, http, model=MODEL, voice=VOICE)
        model.update_options(max_response_output_tokens=IDS)
        session = model.session(turn_detection_disabled=True)
        for _ in range(2):
            _push(session, *TURN)
            session.commit_audio()
            answer = Heard()
            await _answer(await session.generate_reply(), answer)
            note(heard, answer)
        await session.aclose()


async def spoken_livekit_interrupted(url: str, heard: Heard) -> None:
    """As an agent's session: it interrupts and truncates when the user begins to speak."""
    from openai.types.realtime.realtime_audio_input_turn_detection import ServerVad

    async with aiohttp.ClientSession() as http:
        turns = ServerVad(**_SERVER_TURNS)
        model = livekit(url, http, model=MODEL, voice=VOICE, turn_detection=turns)
        model.update_options(max_response_output_tokens=IDS)
        session, generations = model.session(), asyncio.Queue[Any]()
        session.on("generation_created", generations.put_nowait)
        speaks = asyncio.Event()
        session.on("input_speech_started", lambda _: speaks.set())
        _push(session, *TURN)
        message = await anext(aiter((await generations.get()).message_stream))
        cut, answer = Heard(until_s=CUT_AFTER_S), Heard()
        try:
            await take(message, cut)
        except Enough:
            heard.cut_s = cut.seconds
            speaks.clear()
            _push(session, TURN[1])
            await speaks.wait()
            session.interrupt()
            about = {"message_id": message.message_id, "modalities": ["audio"]}
            session.truncate(**about, audio_end_ms=round(1000 * CUT_AFTER_S))
            _push(session, TURN[2])  # or the interruption would meet the answer to this turn
        await _answer(await generations.get(), answer)
        note(heard, answer)
        await session.aclose()


class _Spoken(Pipeline):
    """The service alone, and frames of the user's sound."""

    def __init__(self, url: str, heard: Heard, turns: Any) -> None:
        from pipecat.services.openai.realtime import events
        from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService

        detected = events.TurnDetection(**turns) if turns else False
        said, told = events.AudioInput(turn_detection=detected), events.AudioOutput(voice=VOICE)
        audio = events.AudioConfiguration(input=said, output=told)
        properties = events.SessionProperties(audio=audio, max_output_tokens=IDS)
        settings = OpenAIRealtimeLLMService.Settings(model=MODEL, session_properties=properties)
        address = f"{url.replace('http', 'ws')}/v1/realtime"
        self._service = OpenAIRealtimeLLMService(api_key=KEY, base_url=address, settings=settings)
        super().__init__(self._service, heard)

    async def say(self, *parts: Any, **_: Any) -> None:
        from pipecat.frames.frames import InputAudioRawFrame

        while not self._service._api_session_ready:
            await asyncio.sleep(0.02)
        for block in blocks(*parts):
            await self._task.queue_frame(InputAudioRawFrame(block, HZ, 1))

    async def end_turn(self) -> None:
        from pipecat.frames.frames import UserStoppedSpeakingFrame

        await self._task.queue_frame(UserStoppedSpeakingFrame())

    async def answer(self, heard: Heard) -> None:
        """Have the next one noted."""
        with self.apart() as answer:
            await self.ended()
            note(heard, Heard(answer.seconds, words=answer.words))


async def spoken_pipecat(url: str, heard: Heard, text: str) -> None:
    del text
    sink = Heard()
    pipeline = _Spoken(url, sink, None)

    async def feed() -> None:
        for _ in range(2):
            await pipeline.say(*TURN)
            await pipeline.end_turn()
            await pipeline.answer(heard)

    await pipeline.run(feed)
    heard.error = sink.error


async def spoken_pipecat_interrupted(url: str, heard: Heard) -> None:
    sink = Heard()
    pipeline = _Spoken(url, sink, _SERVER_TURNS)

    async def feed() -> None:
        await pipeline.say(*TURN)
        await pipeline.first_audio()
        heard.cut_s = sink.seconds
        await pipeline.say(*TURN[1:])
        await pipeline.ended()
        await pipeline.answer(heard)

    await pipeline.run(feed)
    heard.error = sink.error


if __name__ == "__main__":
    main(
        {
            "spoken_openai": spoken_openai,
            "spoken_livekit": spoken_livekit,
            "spoken_pipecat": spoken_pipecat,
        },
        {
            "spoken_openai": spoken_openai_interrupted,
            "spoken_livekit": spoken_livekit_interrupted,
            "spoken_pipecat": spoken_pipecat_interrupted,
        },
    )
