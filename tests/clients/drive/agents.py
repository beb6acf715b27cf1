"""The classes of voice agents: LiveKit's plugins and Pipecat's services."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
from common import CUT_AFTER_S, KEY, LONG, SENTENCES, Enough, Heard, main

# A sink that received nothing for so long has all there was.
QUIET_S = 2.0


async def _livekit(tts: Any, heard: Heard, text: str, *, streamed: bool) -> None:
    """What `synthesize` or `stream` gives; without a retry, unless the client is patient."""
    from livekit.agents import APIConnectOptions

    options = APIConnectOptions() if heard.patient else APIConnectOptions(max_retry=0)
    if streamed:
        stream = tts.stream(conn_options=options)
        for word in text.split():
            stream.push_text(f"{word} ")
        stream.flush()
        stream.end_input()
    else:
        stream = tts.synthesize(text, conn_options=options)
    async with stream:
        async for audio in stream:
            for timed in audio.frame.userdata.get("lk.timed_transcripts", ()):
                heard.words.append((str(timed).strip(), float(timed.start_time)))
            heard.audio(audio.frame.duration)


def livekit_tts(name: str, url: str, session: aiohttp.ClientSession) -> Any:
    from livekit.plugins import cartesia, deepgram, elevenlabs, openai

    match name:
        case "openai":
            return openai.TTS(base_url=f"{url}/v1", api_key=KEY)
        case "elevenlabs":
            return elevenlabs.TTS(base_url=f"{url}/v1", api_key=KEY, http_session=session)
        case "cartesia":
            return cartesia.TTS(base_url=url, api_key=KEY, http_session=session)
        case "elevenlabs_v3":
            place, model = f"{url}/v1", "eleven_v3"
            return elevenlabs.TTS(base_url=place, model=model, api_key=KEY, http_session=session)
        case "deepgram_v2":
            return deepgram.TTSv2(base_url=f"{url}/v2/speak", api_key=KEY, http_session=session)
    return deepgram.TTS(base_url=f"{url}/v1/speak", api_key=KEY, http_session=session)


def livekit(name: str) -> Any:
    async def driver(url: str, heard: Heard, text: str) -> None:
        async with aiohttp.ClientSession() as session:
            tts = livekit_tts(name, url, session)
            await _livekit(tts, heard, text, streamed=name != "openai")
            await tts.aclose()

    return driver


def livekit_interrupted(name: str) -> Any:
    """The next text is spoken by the same TTS, over its pooled connection."""

    async def interruption(url: str, heard: Heard) -> None:
        cut = Heard(until_s=CUT_AFTER_S)
        async with aiohttp.ClientSession() as session:
            tts = livekit_tts(name, url, session)
            try:
                await _livekit(tts, cut, LONG, streamed=name != "openai")
            except Enough:
                heard.cut_s = cut.seconds
            await _livekit(tts, heard, SENTENCES[0], streamed=name != "openai")
            await tts.aclose()

    return interruption


def pipecat_service(name: str, url: str, heard: Heard, session: aiohttp.ClientSession) -> Any:
    from pipecat.services.cartesia.tts import CartesiaTTSService
    from pipecat.services.deepgram.tts import DeepgramTTSService
    from pipecat.services.elevenlabs.tts import ElevenLabsHttpTTSService, ElevenLabsTTSService
    from pipecat.services.openai.tts import OpenAITTSService

    class Watched(ElevenLabsHttpTTSService):  # type: ignore[misc]
        """Without a socket: each sentence is a request, and its clock adds up."""

        def _reset_state(self) -> None:
            heard.timed_s = max(heard.timed_s, getattr(self, "_cumulative_time", 0.0))
            super()._reset_state()

    socket = url.replace("http", "ws")
    match name:
        case "openai":
            return OpenAITTSService(api_key=KEY, base_url=f"{url}/v1")
        case "elevenlabs":
            return ElevenLabsTTSService(api_key=KEY, voice_id="21m00Tcm4TlvDq8ikWAM", url=socket)
        case "elevenlabs_http":
            voice = Watched.Settings(voice="21m00Tcm4TlvDq8ikWAM")
            return Watched(api_key=KEY, settings=voice, base_url=url, aiohttp_session=session)
        case "cartesia":
            return CartesiaTTSService(
                api_key=KEY, voice_id="a0e99841-438c-4a64", url=f"{socket}/tts/websocket"
            )
    return DeepgramTTSService(api_key=KEY, base_url=socket)


def _sink(
    heard: Heard, came: asyncio.Event, interrupted: asyncio.Event, ended: asyncio.Event
) -> Any:
    from pipecat.frames.frames import (
        ErrorFrame,
        InterruptionFrame,
        LLMFullResponseEndFrame,
        TTSAudioRawFrame,
        TTSTextFrame,
    )
    from pipecat.processors.frame_processor import FrameDirection, FrameProcessor

    class Sink(FrameProcessor):  # type: ignore[misc]
        async def process_frame(self, frame: Any, direction: FrameDirection) -> None:
            await super().process_frame(frame, direction)
            if isinstance(frame, TTSAudioRawFrame):
                if not came.is_set() and not heard.seconds:
                    heard.late_s = -self.get_clock().get_time() / 1e9
                heard.audio(len(frame.audio) / 2 / frame.sample_rate)
                came.set()
            elif isinstance(frame, TTSTextFrame):
                if not heard.words:
                    heard.late_s += (frame.pts or 0) / 1e9
                heard.words.append((frame.text.strip(), (frame.pts or 0) / 1e9))
            elif isinstance(frame, ErrorFrame):
                heard.error = "ErrorFrame"
            elif isinstance(frame, InterruptionFrame):
                interrupted.set()
            elif isinstance(frame, LLMFullResponseEndFrame):
                ended.set()
            await self.push_frame(frame, direction)

    return Sink()


class Pipeline:
    """A pipeline of a service and a sink, fed as a language model feeds one."""

    def __init__(self, service: Any, heard: Heard) -> None:
        from pipecat.pipeline.pipeline import Pipeline as Line
        from pipecat.pipeline.task import PipelineParams, PipelineTask

        self._came, self._interrupted, self._ended = (asyncio.Event() for _ in range(3))
        self._heard = heard
        line = Line([service, _sink(heard, self._came, self._interrupted, self._ended)])
        self._task = PipelineTask(line, params=PipelineParams(audio_out_sample_rate=24_000))

        @self._task.event_handler("on_pipeline_error")  # type: ignore[untyped-decorator]
        async def failed(_: Any, frame: Any) -> None:
            heard.error = "ErrorFrame"
            self._came.set()

    async def run(self, feeding: Callable[[], Awaitable[None]]) -> None:
        from pipecat.frames.frames import EndFrame
        from pipecat.pipeline.runner import PipelineRunner

        running = asyncio.create_task(PipelineRunner(handle_sigint=False).run(self._task))
        await feeding()
        await self._task.queue_frames([EndFrame()])
        await asyncio.wait((running,), timeout=10)

    async def say(self, text: str, *, ends: bool = True) -> None:
        from pipecat.frames.frames import (
            LLMFullResponseEndFrame,
            LLMFullResponseStartFrame,
            LLMTextFrame,
        )

        frames = [LLMTextFrame(text=f"{word} ") for word in text.split()]
        end = [LLMFullResponseEndFrame()] if ends else []
        await self._task.queue_frames([LLMFullResponseStartFrame(), *frames, *end])

    async def first_audio(self) -> None:
        await self._came.wait()

    async def ended(self) -> None:
        """Until a response of a realtime service has ended."""
        await self._ended.wait()
        self._ended.clear()

    async def quiet(self) -> None:
        """Until nothing came for a while."""
        while True:
            self._came.clear()
            try:
                await asyncio.wait_for(self._came.wait(), QUIET_S)
            except TimeoutError:
                return

    async def interrupt(self) -> None:
        """Returns when the frame has gone through: what comes now comes too late."""
        from pipecat.frames.frames import InterruptionFrame

        await self._task.queue_frame(InterruptionFrame())
        await self._interrupted.wait()

    async def interrupted(self, begun: Awaitable[None]) -> None:
        """Begin, and interrupt what is heard; what comes of it afterwards is told apart."""
        with self.apart() as cut:
            await begun
            await self.first_audio()
            await self.interrupt()
            self._heard.cut_s = cut.seconds
            await self.quiet()
            self._heard.stray_s = cut.seconds - self._heard.cut_s

    @contextmanager
    def apart(self) -> Iterator[Heard]:
        """What is heard meanwhile is not counted."""
        kept = self._heard.seconds, self._heard.words
        self._heard.seconds, self._heard.words = 0.0, []
        yield self._heard
        self._heard.seconds, self._heard.words = kept


def pipecat(name: str) -> Any:
    async def driver(url: str, heard: Heard, text: str) -> None:
        async with aiohttp.ClientSession() as session:
            pipeline = Pipeline(pipecat_service(name, url, heard, session), heard)

            async def feed() -> None:
                await pipeline.say(text)
                await pipeline.quiet()

            await pipeline.run(feed)
        if heard.words:
            origin = heard.words[0][1]
            heard.words = [(word, start - origin) for word, start in heard.words]

    return driver


def pipecat_interrupted(name: str, *, ends: bool = True) -> Any:
    """An InterruptionFrame, as when the user speaks; then the next answer.

    ends: the answer that is interrupted has been written to its end.
    """

    async def interruption(url: str, heard: Heard) -> None:
        async with aiohttp.ClientSession() as session:
            pipeline = Pipeline(pipecat_service(name, url, heard, session), heard)

            async def feed() -> None:
                await pipeline.interrupted(pipeline.say(LONG, ends=ends))
                await pipeline.say(SENTENCES[0])
                await pipeline.quiet()

            await pipeline.run(feed)

    return interruption


if __name__ == "__main__":
    vendors = ("openai", "elevenlabs", "cartesia", "deepgram")
    main(
        {f"livekit_{name}": livekit(name) for name in (*vendors, "elevenlabs_v3", "deepgram_v2")}
        | {f"pipecat_{name}": pipecat(name) for name in (*vendors, "elevenlabs_http")},
        {f"livekit_{name}": livekit_interrupted(name) for name in vendors}
        | {f"pipecat_{name}": pipecat_interrupted(name) for name in vendors}
        | {"pipecat_elevenlabs_open": pipecat_interrupted("elevenlabs", ends=False)},
    )
