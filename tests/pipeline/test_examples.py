"""The examples, run as anybody would: tokens on standard input, sound into a player."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection, serve

from antiphon.stack import LocalStack

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TEXT = "The tide is coming in. Can you hear the bells?"


def node() -> list[str]:
    """Node with a WebSocket, or a skip."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("no node")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True)
    major = int(version.stdout.strip().lstrip("v").split(".")[0])
    return [found] if major >= 22 else [found, "--experimental-websocket"]


@pytest.mark.parametrize("language", ["python", "javascript"])
async def test_an_example_speaks_what_is_written(
    fake_stack: LocalStack, language: str, tmp_path: Path
) -> None:
    heard = tmp_path / "heard.pcm"
    command = {"python": [sys.executable, str(EXAMPLES / "speak.py")]}.get(language)
    process = await asyncio.create_subprocess_exec(
        *(command or [*node(), str(EXAMPLES / "speak.mjs")]),
        stdin=asyncio.subprocess.PIPE,
        env={
            **os.environ,
            "ANTIPHON_URL": fake_stack.url.replace("http", "ws"),
            "PLAYER": f"cat > {heard}",
        },
    )
    assert process.stdin is not None
    for token in TEXT.split(" "):
        process.stdin.write(f"{token} ".encode())
        await process.stdin.drain()
    process.stdin.close()
    async with asyncio.timeout(30):
        assert await process.wait() == 0
    seconds = heard.stat().st_size / 2 / 24_000
    assert seconds == pytest.approx(len(TEXT) * 1.6 / 25, rel=0.1)


async def test_no_character_is_lost_between_two_reads_and_an_error_is_shown() -> None:
    text, told = "x" * 63 + "é and the rest", []
    error = '{"type":"error","request_id":null,"error":{"message":"no room"}}'

    async def take(socket: ServerConnection) -> None:
        async for frame in socket:
            told.append(json.loads(frame))
            if told[-1]["type"] == "session.close":
                await socket.send(error)
                return

    async with serve(take, "127.0.0.1", 0) as running:
        port = next(iter(running.sockets)).getsockname()[1]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(EXAMPLES / "speak.py")),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={
                **os.environ,
                "ANTIPHON_URL": f"ws://127.0.0.1:{port}",
                "PLAYER": "cat > /dev/null",
            },
        )
        async with asyncio.timeout(30):
            shown, _ = await process.communicate(text.encode())
    assert "".join(one["text"] for one in told if one["type"] == "input.text") == text
    assert shown.decode().strip() == error


@pytest.mark.parametrize("example", ["speak.py", "speak.mjs"])
def test_an_example_is_short(example: str) -> None:
    lines = (EXAMPLES / example).read_text().splitlines()
    assert sum(bool(line.strip()) for line in lines) < 30
