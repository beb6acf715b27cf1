"""Real clients, pinned and unmodified, each against a stack; `make clients`.

What they received is compared with what Antiphon's own socket says: most mistakes are silent, and
only the length or the times show them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
from websockets.asyncio.client import connect

from antiphon.stack import LocalStack, StackConfig

DRIVERS: Final = Path(__file__).with_name("drive")
PYTHON: Final = os.environ.get("ANTIPHON_CLIENTS", "")
TEXT: Final = (
    "The tide is coming in. Can you hear the bells across the water?"
    " They ring twice, and then they stop."
)
KEY: Final = "sesame"

SPEAKING: Final = {
    "sdks": [
        "openai_pcm", "openai_wav", "elevenlabs_stream", "elevenlabs_timed", "cartesia_bytes",
        "cartesia_socket", "deepgram_http", "deepgram_socket", "wyoming_whole", "wyoming_streamed",
    ],
    "agents": [
        "livekit_openai", "livekit_elevenlabs", "livekit_cartesia", "livekit_deepgram",
        "pipecat_openai", "pipecat_elevenlabs", "pipecat_cartesia", "pipecat_deepgram",
    ],
}  # fmt: skip
TIMED: Final = {
    "sdks": ["elevenlabs_timed", "cartesia_socket"],
    "agents": [
        "livekit_elevenlabs", "livekit_cartesia", "pipecat_elevenlabs", "pipecat_cartesia",
    ],
}  # fmt: skip
# Clients join sentences in their own ways; a character of the fake voice lasts 64 ms.
TOLERANCE_S: Final = 0.35

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(not PYTHON, reason="`make clients` installs the clients"),
]


def every(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(module, name) for module, names in table.items() for name in names]


@pytest.fixture
async def stack(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[LocalStack]:
    wanted: dict[str, Any] = getattr(request, "param", {})
    gateway = {"ANTIPHON_WYOMING_PORT": "0", "ANTIPHON_ADMISSION": "off"}
    if wanted.get("keys"):
        digest = hashlib.sha256(KEY.encode()).hexdigest()
        file = tmp_path / "keys.toml"
        file.write_text(f'[keys.someone]\nsha256 = "{digest}"\nstreams = 1\n')
        gateway["ANTIPHON_KEYS_FILE"] = str(file)
    config = StackConfig(
        port=0, store=tmp_path / "store", engine=wanted.get("engine", "fake"),
        environ={"gateway": gateway},
    )  # fmt: skip
    async with LocalStack(config) as running:
        yield running


async def drive(stack: LocalStack, module: str, name: str) -> dict[str, Any]:
    """What a client says that it received."""
    port = str(stack.children["gateway"].ports["wyoming"])
    process = await asyncio.create_subprocess_exec(
        PYTHON, str(DRIVERS / f"{module}.py"), name, stack.url,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "WYOMING_PORT": port, "CLIENT_KEY": KEY},
    )  # fmt: skip
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()[-3000:]
    heard: dict[str, Any] = json.loads(out.decode().splitlines()[-1])
    return heard


async def own_seconds(stack: LocalStack) -> float:
    """How long the same text is on Antiphon's own socket."""
    async with connect(stack.url.replace("http", "ws") + "/v1/audio/speech/stream") as socket:
        for message in (
            {"type": "session.config"},
            {"type": "input.text", "text": TEXT},
            {"type": "input.done"},
        ):
            await socket.send(json.dumps(message))
        async for data in socket:
            if isinstance(data, str) and (told := json.loads(data))["type"] == "audio.done":
                return float(told["duration_s"])
    raise AssertionError("no end came")


async def test_every_client_hears_all_of_it(stack: LocalStack) -> None:
    expected = await own_seconds(stack)
    wrong = {}
    for module, name in every(SPEAKING):
        heard = await drive(stack, module, name)
        print(name, heard["seconds"], heard["first_s"], file=sys.stderr)
        if heard["error"] or abs(heard["seconds"] - expected) > TOLERANCE_S:
            wrong[name] = heard
    assert wrong == {}, expected


@pytest.mark.parametrize("stack", [{"engine": "torch"}], indirect=True)
async def test_word_times_are_those_of_the_text(stack: LocalStack) -> None:
    wrong = {}
    for module, name in every(TIMED):
        heard = await drive(stack, module, name)
        words = [word for word, _ in heard["words"]]
        times = [start for _, start in heard["words"]]
        print(name, heard["words"], file=sys.stderr)
        in_order = times == sorted(times) and 2.0 < times[-1] - times[0] < heard["seconds"]
        if " ".join(words).split() != TEXT.split() or not in_order:
            wrong[name] = heard
    assert wrong == {}


async def test_failures_are_the_clients_own_classes(stack: LocalStack) -> None:
    heard = await drive(stack, "sdks", "openai_errors")
    assert heard["error"].split() == [
        "NotFoundError:unknown_model",
        "BadRequestError:bad_request",
        "BadRequestError:nothing_to_say",
        "BadRequestError:unknown_voice",
    ]
    heard = await drive(stack, "sdks", "elevenlabs_errors")
    assert heard["error"] == "400:nothing_to_say"


@pytest.mark.parametrize("stack", [{"keys": True}], indirect=True)
async def test_keys_are_asked_for_and_429_is_retried(stack: LocalStack) -> None:
    heard = await drive(stack, "sdks", "openai_unauthorised")
    assert heard["error"] == "AuthenticationError"
    heard = await drive(stack, "sdks", "openai_retries")
    assert heard["seconds"] > 10
    for name in ("elevenlabs_stream", "cartesia_socket", "deepgram_socket"):
        assert (await drive(stack, "sdks", name))["seconds"] > 5
