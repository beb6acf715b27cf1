"""Cost of the path: first sound through the stack against the two engines called directly.

    python -m tests.benchmarks.hops --url http://127.0.0.1:8000 --voice-dir voices/vesper

Both sides run turn by turn on the same machine, with the same texts and seeds; the difference of
the medians is what gateway, broker and four hops of it add. `stack_bus` and the other stages are
the stack's own account, from its Server-Timing header; `stack_reading` is what the talker spends
before its engine has the text, and `stack_edge` what client, socket and gateway add to all of them.
Beside listeners, `antiphon bench run` shows the same account.
"""

import asyncio
import json
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import aiohttp
import typer

from antiphon_bench.clients.http import server_timing
from antiphon_bench.stats import percentile
from talker.engine import stream as talking
from talker.loading import build_engine as build_talker
from talker.settings import TalkerSettings
from ttscommon.process.metrics import Metrics
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Text
from vocoder.engine import stream as vocoding
from vocoder.service import build_engine as build_vocoder
from vocoder.settings import VocoderSettings

_TEXTS = (
    "Good morning, and welcome to the show.",
    "Where did you put the keys to the car?",
    "The train to the north leaves from platform nine in five minutes.",
    "If it rains tomorrow, we will stay at home and read.",
)


@dataclass(frozen=True)
class FirstSound:
    """Seconds from the request to its first frames and to its first samples."""

    frames_s: float | None
    samples_s: float


class Direct:
    """Talker and vocoder engines in this process, the one's frames fed to the other.

    Built as the services build theirs, so that both sides cut the same first chunk.
    """

    def __init__(self, voice_dir: Path) -> None:
        self._talker = build_talker(TalkerSettings(voice_dir=voice_dir), Metrics())
        self._vocoder = build_vocoder(VocoderSettings(voice_dir=voice_dir), Metrics())
        self._talker.start()
        self._vocoder.start()

    def first_sound(self, request: SpeechRequest) -> FirstSound:
        """Speak until the first samples, then cancel."""
        heard = threading.Event()
        times: dict[str, float] = {}
        began = time.perf_counter()

        def on_samples(events: Sequence[tuple[str, vocoding.Event]]) -> None:
            if any(isinstance(event, vocoding.DecodedAudio) for _, event in events):
                times.setdefault("samples", time.perf_counter() - began)
                heard.set()

        def on_frames(events: Sequence[tuple[str, talking.Event]]) -> None:
            for key, event in events:
                if isinstance(event, talking.ChunkReady):
                    times.setdefault("frames", time.perf_counter() - began)
                    self._vocoder.feed(key, event.arrays)

        self._vocoder.listen(on_samples)
        self._talker.listen(on_frames)
        self._open(request)
        if not heard.wait(30):
            raise TimeoutError("the engines gave no sound")
        self._talker.cancel(request.request_id)
        self._vocoder.cancel(request.request_id)
        return FirstSound(times["frames"], times["samples"])

    def _open(self, request: SpeechRequest) -> None:
        self._vocoder.open(request)
        prepared = self._talker.family.prepare(request)
        units = list(prepared.read([Text(request.text)], final=True))
        self._talker.open(prepared, None, units, final=True)

    def close(self) -> None:
        self._talker.stop()
        self._vocoder.stop()


async def through_stack(
    session: aiohttp.ClientSession, url: str, body: dict[str, Any]
) -> dict[str, float]:
    """Seconds to the first samples at a client that leaves then, and the stack's own account."""
    began = time.perf_counter()
    async with session.post(f"{url}/v1/audio/speech", json=body) as response:
        response.raise_for_status()
        await response.content.readany()
        heard_s = time.perf_counter() - began
        stages = server_timing(response.headers)
    parts = {f"stack_{name.removesuffix('_s')}": seconds for name, seconds in stages.items()}
    return {"stack": heard_s, **parts, **_between(heard_s, stages)}


def _between(heard_s: float, stages: Mapping[str, float]) -> dict[str, float]:
    """What is in no stage's account; nothing where the stack gives none."""
    if not stages:
        return {}
    told_s = sum(stages[f"{name}_s"] for name in ("bus", "talker", "vocoder"))
    reading_s = stages["talker_s"] - stages["talker_engine_s"]
    return {"stack_reading": reading_s, "stack_edge": heard_s - told_s}


def summary(values: list[float]) -> dict[str, float]:
    """Milliseconds."""
    shares = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
    ordered = sorted(values)
    return {name: round(1e3 * percentile(ordered, share), 2) for name, share in shares.items()}


async def compare(url: str, direct: Direct, turns: int, warm_up: int) -> dict[str, object]:
    """Both sides, turn by turn; the first `warm_up` turns count for nothing."""
    rows: defaultdict[str, list[float]] = defaultdict(list)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
        for turn in range(warm_up + turns):
            text, seed = _TEXTS[turn % len(_TEXTS)], turn // len(_TEXTS)
            body = {"input": text, "voice": "vesper", "seed": seed, "response_format": "pcm"}
            body["sample_rate"] = 24_000  # the model's own: nothing is resampled
            stack = await through_stack(session, url, body)
            await asyncio.sleep(0.2)  # the stack lets go of the request that was left
            request = SpeechRequest(f"direct-{turn}", "vesper", "vesper", text, seed=seed)
            first = await asyncio.to_thread(direct.first_sound, request)
            await asyncio.sleep(0.2)
            if turn >= warm_up:
                rows["talker"].append(first.frames_s or 0.0)
                rows["engines"].append(first.samples_s)
                for name, seconds in stack.items():
                    rows[name].append(seconds)
    found: dict[str, object] = {name: summary(values) for name, values in rows.items()}
    added = median(rows["stack"]) - median(rows["engines"])
    return {"turns": turns, "unit": "ms", **found, "stack_adds_p50": round(1e3 * added, 2)}


def main(
    url: Annotated[str, typer.Option()] = "http://127.0.0.1:8000",
    voice_dir: Annotated[Path, typer.Option()] = Path("voices/vesper"),
    turns: Annotated[int, typer.Option(min=1)] = 60,
    warm_up: Annotated[int, typer.Option(min=0)] = 8,
) -> None:
    """Measure and print as JSON."""
    direct = Direct(voice_dir)
    try:
        print(json.dumps(asyncio.run(compare(url, direct, turns, warm_up)), indent=2))
    finally:
        direct.close()


if __name__ == "__main__":
    typer.run(main)
