"""`antiphon say -o` over a gateway that is killed: the file is the one it would have been."""

from __future__ import annotations

import asyncio
import json
import sys
import wave
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.stack import LocalStack, StackConfig
from tests.waits import until

TEXT = "One after another the lamps are lit along the wall. " * 2
# About twice as fast as speech, so that much is left to say when the first sound is there.
CURVE = {"base_s": 0.02, "stream_s": 0.0002, "prefill_s": 0.003}


@pytest.fixture
async def slow_stack(tmp_path: Path) -> AsyncIterator[LocalStack]:
    curve = tmp_path / "curve.json"
    curve.write_text(json.dumps(CURVE))
    environ = {"talker": {"ANTIPHON_FAKE_CURVE": str(curve)}}
    config = StackConfig(port=0, store=tmp_path / "store", engine="fake", environ=environ)
    async with LocalStack(config) as running:
        yield running


async def start_saying(stack: LocalStack, out: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "antiphon", "say", TEXT,
        "--url", stack.url, "--seed", "7", "-o", str(out),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip


async def samples(process: asyncio.subprocess.Process, out: Path) -> bytes:
    async with asyncio.timeout(60):
        said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    with wave.open(str(out)) as file:
        return file.readframes(file.getnframes())


async def sounding(out: Path) -> None:
    await until(lambda: out.exists() and out.stat().st_size > 4096)


@pytest.mark.slow
async def test_the_file_is_whole_although_the_gateway_was_killed(
    slow_stack: LocalStack, tmp_path: Path
) -> None:
    undisturbed = tmp_path / "undisturbed.wav"
    expected = await samples(await start_saying(slow_stack, undisturbed), undisturbed)
    disturbed = tmp_path / "disturbed.wav"
    process = await start_saying(slow_stack, disturbed)
    await sounding(disturbed)
    slow_stack.children["gateway"].kill()
    assert disturbed.stat().st_size < len(expected)
    assert await samples(process, disturbed) == expected
