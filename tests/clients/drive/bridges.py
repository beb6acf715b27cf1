"""What stands between a client and Antiphon: LiteLLM, and wyoming-openai for Home Assistant."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from common import KEY, Heard, main
from sdks import listen


async def litellm_speech(url: str, heard: Heard, text: str) -> None:
    import litellm

    response = await litellm.aspeech(
        model="openai/tts-1", voice="alloy", input=text, response_format="pcm",
        api_base=f"{url}/v1", api_key=KEY, max_retries=8 * heard.patient,
    )  # fmt: skip
    heard.audio(len(response.content) / 48_000)


async def litellm_errors(url: str, heard: Heard, text: str) -> None:
    import litellm

    try:
        await litellm.aspeech(
            model="openai/nobody", voice="alloy", input=text, api_base=f"{url}/v1", api_key=KEY,
            max_retries=0,
        )  # fmt: skip
    except litellm.exceptions.BadRequestError as error:  # what it makes of a 404
        heard.error = type(error).__name__


@asynccontextmanager
async def _bridge(url: str, *more: str) -> AsyncIterator[Any]:
    """A client of a running wyoming-openai, which asks Antiphon."""
    from wyoming.client import AsyncTcpClient

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = (
        sys.executable, "-m", "wyoming_openai", "--uri", f"tcp://127.0.0.1:{port}",
        "--tts-openai-url", f"{url}/v1", "--tts-openai-key", KEY, "--tts-voices", "alloy", *more,
    )  # fmt: skip
    server = await asyncio.create_subprocess_exec(*command, stdout=sys.stderr.fileno())
    try:
        while True:
            client = AsyncTcpClient("127.0.0.1", port)
            try:
                await client.connect()
                break
            except OSError:
                await asyncio.sleep(0.1)
        yield client
        await client.disconnect()
    finally:
        server.terminate()
        await server.wait()


async def bridge_whole(url: str, heard: Heard, text: str) -> None:
    from wyoming.tts import Synthesize, SynthesizeVoice

    async with _bridge(url, "--tts-models", "tts-1") as client:
        await client.write_event(
            Synthesize(text=text, voice=SynthesizeVoice(name="alloy (tts-1)")).event()
        )
        await listen(client, heard, "audio-stop")


async def bridge_streamed(url: str, heard: Heard, text: str) -> None:
    from wyoming.tts import SynthesizeChunk, SynthesizeStart, SynthesizeStop, SynthesizeVoice

    async with _bridge(url, "--tts-streaming-models", "gpt-4o-mini-tts") as client:
        voice = SynthesizeVoice(name="alloy (gpt-4o-mini-tts)")
        await client.write_event(SynthesizeStart(voice=voice).event())
        for word in text.split():
            await client.write_event(SynthesizeChunk(text=f"{word} ").event())
        await client.write_event(SynthesizeStop().event())
        await listen(client, heard, "synthesize-stopped")


if __name__ == "__main__":
    main(
        {
            "litellm_speech": litellm_speech,
            "litellm_errors": litellm_errors,
            "bridge_whole": bridge_whole,
            "bridge_streamed": bridge_streamed,
        }
    )
