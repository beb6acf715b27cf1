"""`antiphon say -o` over a gateway that is killed: the file is the one it would have been."""

import asyncio
import sys
import wave
from pathlib import Path

import pytest

from antiphon.stack import LocalStack
from tests.stacks import SLOW
from tests.waits import until

TEXT = "One after another the lamps are lit along the wall. " * 2


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
@SLOW
async def test_the_file_is_whole_although_the_gateway_was_killed(
    stack: LocalStack, tmp_path: Path
) -> None:
    undisturbed = tmp_path / "undisturbed.wav"
    expected = await samples(await start_saying(stack, undisturbed), undisturbed)
    disturbed = tmp_path / "disturbed.wav"
    process = await start_saying(stack, disturbed)
    await sounding(disturbed)
    stack.children["gateway"].kill()
    assert disturbed.stat().st_size < len(expected)
    assert await samples(process, disturbed) == expected
