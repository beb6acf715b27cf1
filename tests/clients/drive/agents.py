"""The classes of voice agents: LiveKit's plugins and Pipecat's services."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import aiohttp
from common import SENTENCES, TEXT, Heard, main

KEY = os.environ.get("CLIENT_KEY", "no-key")


async def _livekit(make: Any, *, streamed: bool) -> Heard:
    """What `synthesize` or `stream` gives, without a retry."""
    from livekit.agents import APIConnectOptions

    heard = Heard()
    options = APIConnectOptions(max_retry=0)
    async with aiohttp.ClientSession() as session:
        tts = make(session)
        if streamed:
            stream = tts.stream(conn_options=options)
            for word in TEXT.split():
                stream.push_text(f"{word} ")
            stream.flush()
            stream.end_input()
        else:
            stream = tts.synthesize(TEXT, conn_options=options)
        async with stream:
            async for audio in stream:
                heard.audio(audio.frame.duration)
                for timed in audio.frame.userdata.get("lk.timed_transcripts", ()):
                    heard.words.append((str(timed).strip(), float(timed.start_time)))
        await tts.aclose()
    return heard


async def livekit_openai(url: str) -> Heard:
    from livekit.plugins import openai

    return await _livekit(lambda _: openai.TTS(base_url=f"{url}/v1", api_key=KEY), streamed=False)


async def livekit_elevenlabs(url: str) -> Heard:
    from livekit.plugins import elevenlabs

    def make(session: Any) -> Any:
        return elevenlabs.TTS(base_url=f"{url}/v1", api_key=KEY, http_session=session)

    return await _livekit(make, streamed=True)


async def livekit_cartesia(url: str) -> Heard:
    from livekit.plugins import cartesia

    return await _livekit(
        lambda session: cartesia.TTS(base_url=url, api_key=KEY, http_session=session),
        streamed=True,
    )


async def livekit_deepgram(url: str) -> Heard:
    from livekit.plugins import deepgram

    def make(session: Any) -> Any:
        return deepgram.TTS(base_url=f"{url}/v1/speak", api_key=KEY, http_session=session)

    return await _livekit(make, streamed=True)


async def _pipecat(service: Any) -> Heard:
    """A pipeline of the service and a sink, fed like a language model feeds one."""
    from pipecat.frames.frames import (
        EndFrame,
        ErrorFrame,
        LLMFullResponseEndFrame,
        LLMFullResponseStartFrame,
        LLMTextFrame,
        TTSAudioRawFrame,
        TTSTextFrame,
    )
    from pipecat.pipeline.pipeline import Pipeline
    from pipecat.pipeline.runner import PipelineRunner
    from pipecat.pipeline.task import PipelineParams, PipelineTask
    from pipecat.processors.frame_processor import FrameProcessor

    heard = Heard()
    quiet = asyncio.Event()

    class Sink(FrameProcessor):
        async def process_frame(self, frame: Any, direction: Any) -> None:
            await super().process_frame(frame, direction)
            if isinstance(frame, TTSAudioRawFrame):
                heard.audio(len(frame.audio) / 2 / frame.sample_rate)
                quiet.set()
            elif isinstance(frame, TTSTextFrame):
                heard.words.append((frame.text.strip(), (frame.pts or 0) / 1e9))
            elif isinstance(frame, ErrorFrame):
                heard.error = frame.error
            await self.push_frame(frame, direction)

    task = PipelineTask(
        Pipeline([service, Sink()]), params=PipelineParams(audio_out_sample_rate=24_000)
    )
    running = asyncio.create_task(PipelineRunner(handle_sigint=False).run(task))
    frames = [LLMTextFrame(text=f"{word} ") for word in TEXT.split()]
    await task.queue_frames([LLMFullResponseStartFrame(), *frames, LLMFullResponseEndFrame()])
    while True:  # until nothing came for a while
        quiet.clear()
        try:
            await asyncio.wait_for(quiet.wait(), 3.0)
        except TimeoutError:
            break
    await task.queue_frames([EndFrame()])
    await running
    if heard.words:
        origin = heard.words[0][1]
        heard.words = [(word, start - origin) for word, start in heard.words]
    return heard


async def pipecat_openai(url: str) -> Heard:
    from pipecat.services.openai.tts import OpenAITTSService

    return await _pipecat(OpenAITTSService(api_key=KEY, base_url=f"{url}/v1"))


async def pipecat_elevenlabs(url: str) -> Heard:
    from pipecat.services.elevenlabs.tts import ElevenLabsTTSService

    socket = url.replace("http", "ws")
    return await _pipecat(
        ElevenLabsTTSService(api_key=KEY, voice_id="21m00Tcm4TlvDq8ikWAM", url=socket)
    )


async def pipecat_cartesia(url: str) -> Heard:
    from pipecat.services.cartesia.tts import CartesiaTTSService

    socket = url.replace("http", "ws") + "/tts/websocket"
    return await _pipecat(
        CartesiaTTSService(api_key=KEY, voice_id="a0e99841-438c-4a64", url=socket)
    )


async def pipecat_deepgram(url: str) -> Heard:
    from pipecat.services.deepgram.tts import DeepgramTTSService

    socket = url.replace("http", "ws")
    return await _pipecat(DeepgramTTSService(api_key=KEY, base_url=socket))


if __name__ == "__main__":
    found = {n: f for n, f in globals().items() if n.startswith(("livekit_", "pipecat_"))}
    assert SENTENCES
    main(found)
