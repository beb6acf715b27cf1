"""Home Assistant itself, whose Wyoming integration is set up before anything can be spoken.

It prints a line once the integration waits, and what it heard at the end.
"""

from __future__ import annotations

import asyncio
import io
import os
import socket
import tempfile
import wave
from collections.abc import AsyncIterator
from types import MappingProxyType
from typing import Any

from common import Heard, main
from homeassistant import bootstrap, loader
from homeassistant.components import tts
from homeassistant.config_entries import ConfigEntries, ConfigEntry, ConfigEntryState
from homeassistant.core import HomeAssistant
from homeassistant.core_config import async_process_ha_core_config
from homeassistant.setup import async_setup_component

_LANGUAGE = "en-US"
_LIMIT_S = 240


async def _home(folder: str) -> HomeAssistant:
    """One that runs; it installs nothing, and has its web server at a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = HomeAssistant(folder)
    loader.async_setup(home)
    home.config.skip_pip = True
    home.config_entries = ConfigEntries(home, {})
    await bootstrap.async_load_base_functionality(home)
    await async_process_ha_core_config(home, {})
    assert await async_setup_component(home, "homeassistant", {})
    assert await async_setup_component(home, "http", {"http": {"server_port": port}})
    await home.async_start()
    return home


async def _entity(home: HomeAssistant) -> Any:
    """What the integration makes of Antiphon, without a reload."""
    entry = ConfigEntry(
        data={"host": "127.0.0.1", "port": int(os.environ["WYOMING_PORT"])},
        domain="wyoming", title="Antiphon", source="user", version=1, minor_version=1, options={},
        unique_id=None, discovery_keys=MappingProxyType({}), subentries_data=(),
    )  # fmt: skip
    await home.config_entries.async_add(entry)
    print(entry.state.name, flush=True)
    async with asyncio.timeout(_LIMIT_S):
        while entry.state is not ConfigEntryState.LOADED:
            await asyncio.sleep(0.1)
    await home.async_block_till_done()
    (entity,) = home.data[tts.DATA_COMPONENT].entities
    return entity


def _seconds(sound: bytes) -> float:
    """Of a WAV, whose head does not know its length if it was streamed."""
    with wave.open(io.BytesIO(sound)) as file:
        return (len(sound) - 44) / file.getframerate() / file.getsampwidth() / file.getnchannels()


async def home_assistant(url: str, heard: Heard, text: str) -> None:
    """The text whole, then word by word: as long as the two are together."""
    del url
    with tempfile.TemporaryDirectory() as folder:
        home = await _home(folder)
        try:
            entity = await _entity(home)
            voices = entity.async_get_supported_voices(_LANGUAGE)
            heard.spelled = " ".join(sorted(voice.voice_id for voice in voices))
            _, sound = await entity.async_get_tts_audio(text, _LANGUAGE, {})
            heard.audio(_seconds(sound))

            async def words() -> AsyncIterator[str]:
                for word in text.split():
                    yield f"{word} "

            assert entity.async_supports_streaming_input()
            asked = tts.TTSAudioRequest(language=_LANGUAGE, options={}, message_gen=words())
            answer = await entity.async_stream_tts_audio(asked)
            heard.audio(_seconds(b"".join([part async for part in answer.data_gen])))
        finally:
            await home.async_stop(force=True)


if __name__ == "__main__":
    main({"home_assistant": home_assistant})
