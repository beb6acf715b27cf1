"""What the site shows and plays: the page, the dashboards and every voice of a running stack."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import httpx

from antiphon.stack import LocalStack, StackConfig
from tools.packages import ROOT

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
DASHBOARDS: Final = ("listeners", "stages", "recovery")
TEXT: Final = "The tide is coming in. Can you hear the bells across the water?"
_QUIET: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
_SIZES: Final = {"page": "1280,1000", "page-phone": "420,900"}
_BROWSER_S: Final = 120.0
_SPEECH_S: Final = 120.0
# With two cores beside other work.
_START_S: Final = 400.0


class Missing(Exception):
    """A program that the pictures need is not here."""


def take(source: Path) -> None:
    """All of them, and the two pages that hold them; raises Missing."""
    browser = _program(BROWSERS, "chromium")
    _program(("prometheus",), "prometheus")
    pictures, sounds = source / "pictures", source / "sounds"
    pictures.mkdir(parents=True, exist_ok=True)
    sounds.mkdir(parents=True, exist_ok=True)
    voices = asyncio.run(_of_a_stack(browser, pictures, sounds))
    observe = ("-m", "tests.deploy.observe", "--engine", "fake", "--step-s", "10")
    command = [sys.executable, *observe, "--out", str(pictures)]
    subprocess.run(command, cwd=ROOT, check=False)  # what a fake engine cannot fill stays empty
    (source / "listen.md").write_text(listen(voices), "utf-8")
    (source / "pictures.md").write_text(shown(), "utf-8")


def _program(names: Sequence[str], package: str) -> str:
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        raise Missing(f"there is no {package}: apt-get install {package}, or ARGS=--plain")
    return found


async def _of_a_stack(browser: str, pictures: Path, sounds: Path) -> list[str]:
    """The page's pictures and the voices' sounds; returns the voices."""
    with tempfile.TemporaryDirectory() as folder:
        config = StackConfig(port=0, store=Path(folder), start_timeout_s=_START_S)
        async with LocalStack(config) as stack:
            for name, size in _SIZES.items():
                await _screenshot(browser, stack.url, size, pictures / f"{name}.png")
            return await _speak(stack.url, sounds)


async def _screenshot(browser: str, url: str, size: str, file: Path) -> None:
    with tempfile.TemporaryDirectory() as profile:
        options = (f"--user-data-dir={profile}", f"--window-size={size}", f"--screenshot={file}")
        command = [browser, *_QUIET, *options, "--virtual-time-budget=5000", url]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
        status = await asyncio.wait_for(process.wait(), _BROWSER_S)
    if status:
        raise Missing(f"{browser} took no picture: it ended with {status}")


async def _speak(url: str, sounds: Path) -> list[str]:
    async with httpx.AsyncClient(base_url=url, timeout=_SPEECH_S) as http:
        voices = [one["id"] for one in (await http.get("/v1/audio/voices")).json()["voices"]]
        for voice in voices:
            body = {"input": TEXT, "voice": voice, "seed": 7}
            answer = await http.post("/v1/audio/speech", json=body)
            (sounds / f"{voice}.mp3").write_bytes(answer.raise_for_status().content)
    return voices


def listen(voices: Sequence[str]) -> str:
    """A player for each voice."""
    players = "\n\n".join(
        f'**{voice}**\n\n<audio controls preload="none" src="../sounds/{voice}.mp3"></audio>'
        for voice in voices
    )
    return f"# Listen\n\nThe default voice, spoken when this site was built: {TEXT}\n\n{players}\n"


def shown() -> str:
    """The page and the dashboards."""
    parts = [
        "# Pictures\n\nTaken when this site was built.\n\n## The page\n",
        "![The page of a gateway](pictures/page.png)\n",
        '![The same on a phone](pictures/page-phone.png){ width="320" }\n',
        "## Dashboards\n\nWith fake engines under a load that rises beyond what there is room for; "
        "two processes are killed in it. Empty panels show what fake engines have not (drafts, a "
        "codec's state) and what the broker's own exporter tells.\n",
    ]
    parts += [f"![Dashboard: {name}](pictures/dashboard-{name}.png)\n" for name in DASHBOARDS]
    return "\n".join(parts)
