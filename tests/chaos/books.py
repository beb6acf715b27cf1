"""`python -m tests.chaos books`: a book is spoken while processes die, and sounds the same.

A text of so many words is spoken as a job, once undisturbed and once while talkers, vocoders,
gateways and the broker are killed in turn. The two sounds are compared byte by byte, and the
memory of every process is looked at all the time. Out come figures and build/books.json.
"""

import asyncio
import hashlib
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from tests.chaos.command import in_folder, options, write
from tests.chaos.probe import rss_mib
from tests.chaos.stack import ChaosStack, chaos_stack

PATH: Final = "/v1/audio/jobs"
VICTIMS: Final = ("talker", "vocoder", "gateway", "broker")
_RATE: Final = 16_000
_FAST_CURVE: Final = {"base_s": 0.0005, "stream_s": 0.00001, "prefill_s": 0.0002}
_SWIFT_VOCODER: Final = {"base_s": 0.0005, "stream_s": 0.00001, "frame_s": 0.00001}
_LOOK_S: Final = 1.0
_BACK_S: Final = 600.0
_SAYS: Final = (
    "the old house by river was quiet when morning came and no bird sang over its long garden "
    "wall she opened a window looked at gray water then wrote three letters to her brother who "
    "had left for sea many years ago with nothing but coat book name of ship he loved"
)
_SENTENCE: Final = (6, 18)
_PARAGRAPH: Final = (3, 8)
_CHAPTER_WORDS: Final = 3000


def text_of(words: int, seed: int = 0) -> str:
    """A Markdown book of so many words, always the same."""
    dice, lines, said, chapter = random.Random(seed), list[str](), 0, 0
    while said < words:
        if said >= chapter * _CHAPTER_WORDS:
            chapter += 1
            lines.append(f"# Chapter {chapter}")
        sentences = [_sentence(dice) for _ in range(dice.randint(*_PARAGRAPH))]
        lines.append(" ".join(sentences))
        said += len(lines[-1].split())
    return "\n\n".join(lines)


def _sentence(dice: random.Random) -> str:
    return " ".join(dice.choices(_SAYS.split(), k=dice.randint(*_SENTENCE))).capitalize() + "."


@dataclass
class Spoken:
    """What came of a job. rss_mib: by process, as it was from look to look."""

    took_s: float = 0.0
    card: dict[str, Any] = field(default_factory=dict)
    digest: str = ""
    kills: list[str] = field(default_factory=list)
    epochs: int = 0
    rss_mib: dict[str, list[float]] = field(default_factory=dict)

    @property
    def hours_an_hour(self) -> float:
        return float(self.card["audio_seconds"]) / self.took_s

    def fields(self) -> dict[str, Any]:
        """As it stands in books.json."""
        return {
            "took_s": round(self.took_s, 1),
            "audio_s": self.card["audio_seconds"],
            "bytes": self.card["bytes"],
            "hours_an_hour": round(self.hours_an_hour, 1),
            "kills": self.kills,
            "sha256": self.digest,
            "rss_mib": {name: memory(looks) for name, looks in self.rss_mib.items()},
        }


def memory(looks: Sequence[float]) -> dict[str, float]:
    """The highest in each quarter of the time."""
    quarter = max(1, len(looks) // 4)
    parts = [looks[n * quarter : (n + 1) * quarter] or looks[-1:] for n in range(4)]
    return {f"quarter_{n}": max(part) for n, part in enumerate(parts, 1)}


async def speak(
    stack: ChaosStack, text: str, kind: str, victims: Sequence[str], dice: random.Random
) -> Spoken:
    """Have a job spoken; each of the victims dies when so much more of it is spoken."""
    spoken, due = Spoken(), list(victims)
    async with httpx.AsyncClient(base_url=stack.url, timeout=120) as http:
        body = {
            "input": text, "input_format": "markdown", "response_format": kind,
            "sample_rate": _RATE, "seed": 11,
        }  # fmt: skip
        began_s = time.monotonic()
        made = await http.post(PATH, json=body)
        made.raise_for_status()
        url = f"{PATH}/{made.json()['id']}"
        while spoken.card.get("status") != "done":
            await asyncio.sleep(_LOOK_S)
            _look(stack, spoken)
            spoken.card = await _card(http, url) or spoken.card
            if spoken.card.get("status") == "failed":
                raise RuntimeError(f"the job failed: {spoken.card['error']}")
            share = spoken.card.get("progress", {}).get("share", 0.0)
            if due and share >= (len(spoken.kills) + 1) / (len(victims) + 1):
                spoken.kills.append(await _kill(stack, due.pop(0), dice))
        spoken.took_s = time.monotonic() - began_s
        spoken.digest = await _digest(http, spoken.card["audio_url"])
        await http.delete(url)
    return spoken


async def _card(http: httpx.AsyncClient, url: str) -> dict[str, Any] | None:
    """None while no gateway can tell."""
    try:
        answer = await http.get(url)
    except httpx.HTTPError:
        return None
    return dict(answer.json()) if answer.status_code == 200 else None


async def _kill(stack: ChaosStack, stage: str, dice: random.Random) -> str:
    """A process that loads weights on a busy machine takes its time, and the book goes on."""
    name = dice.choice(stack.names(stage))
    if stage == "gateway":
        name = await _speaking(stack) or name
    print(f"{name} is killed", flush=True)
    await stack.crash(name, within_s=_BACK_S)
    return name


async def _speaking(stack: ChaosStack) -> str | None:
    """The gateway that speaks the job."""
    async with httpx.AsyncClient(timeout=10) as http:
        for name in stack.names("gateway"):
            port = stack.children[name].ports["admin"]
            lines = (await http.get(f"http://127.0.0.1:{port}/metrics")).text.splitlines()
            if any(line == "tts_books_held 1.0" for line in lines):
                return name
    return None


def _look(stack: ChaosStack, spoken: Spoken) -> None:
    for name, child in stack.children.items():
        if child.pid is not None and (held := rss_mib(child.pid)) is not None:
            spoken.rss_mib.setdefault(name, []).append(held)


async def _digest(http: httpx.AsyncClient, url: str) -> str:
    digest = hashlib.sha256()
    async with http.stream("GET", url) as answer:
        answer.raise_for_status()
        async for part in answer.aiter_bytes():
            digest.update(part)
    return digest.hexdigest()


async def run(
    folder: Path, words: int, engine: str, kind: str, victims: Sequence[str], seed: int
) -> dict[str, Any]:
    """Figures and problems; see `main`."""
    curves: dict[str, Any] = {"talker_curve": _FAST_CURVE, "vocoder_curve": _SWIFT_VOCODER}
    stack = chaos_stack(folder, engine=engine, gateways=2, **curves)
    text, dice = text_of(words), random.Random(seed)
    async with stack:
        disturbed = await speak(stack, text, kind, victims, dice)
        print(json.dumps(disturbed.fields()), flush=True)
        await stack.whole()
        calm = await speak(stack, text, kind, (), dice)
        print(json.dumps(calm.fields()), flush=True)
    problems = [] if calm.digest == disturbed.digest else ["the sounds differ"]
    if len(disturbed.kills) < len(victims):
        problems.append(f"only {disturbed.kills} were killed")
    return {
        "words": len(text.split()),
        "engine": engine,
        "format": kind,
        "disturbed": disturbed.fields(),
        "undisturbed": calm.fields(),
        "problems": problems,
    }


def main() -> int:
    """Exit status 1 if a sound is another."""
    parser = options("books", __doc__, out=True)
    parser.add_argument("--words", type=int, default=100_000)
    parser.add_argument("--engine", choices=("fake", "torch"), default="fake")
    parser.add_argument("--format", default="wav", choices=("wav", "flac", "mp3", "opus"))
    parser.add_argument("--kill", nargs="*", default=VICTIMS, choices=VICTIMS)
    parser.add_argument("--seed", type=int, default=0)
    told = parser.parse_args()
    wanted = (told.words, told.engine, told.format, told.kill, told.seed)
    found = in_folder(lambda folder: run(folder, *wanted))
    write(told.out, found)
    for problem in found["problems"]:
        print(problem)
    return int(bool(found["problems"]))
