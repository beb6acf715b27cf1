"""First sound and frames a second of Pocket TTS, ours and the official package's, side by side.

    make goldens FAMILY=pocket_tts        # once: the reference's environment
    antiphon bench parity-pocket-tts [--language english] [--rounds 3]

Drawn weights of published sizes, in two bytes each as they are published, whose speech never ends
by itself: both speak so many frames of each chunk of the text. Both make latents in one thread and
decode them in another, the first as soon as it is there; neither is behind a server. The package
speaks one request at a time, so its frames a second are those of any number of requests.
"""

from __future__ import annotations

import argparse
import json
import queue
import subprocess
import threading
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import torch

from antiphon_bench.texts import LONG, MEDIUM, SHORT
from talker.engine.engine import Engine
from talker.engine.stream import ChunkReady
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import concatenate, rows
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Text
from ttsfamilies.base.codec.base import Codec, Work
from ttsfamilies.base.talker.chunker import ChunkSizes
from ttsfamilies.codecs import load as load_codec
from ttsfamilies.pocket_tts.family import PocketTts
from ttsfamilies.pocket_tts.sizes import published
from ttsfamilies.pocket_tts.synthetic import write_checkpoint

REFERENCE: Final = "build/goldens/pocket_tts/bin/python"
BATCHES: Final = (1, 4, 8)
WORDS: Final = (8, 25, 60)
_WHOLE: Final = " ".join((*SHORT, *MEDIUM, *LONG)).split()


class Measured(NamedTuple):
    """Seconds to the first sound, a mean over the requests, and frames a second of them all."""

    first_s: float
    rate: float


def text_of(words: int) -> str:
    """So many words, in sentences of eight."""
    said = [word.strip(".,?!'").lower() for word in _WHOLE[40 : 40 + words]]
    parts = [said[at : at + 8] for at in range(0, len(said), 8)]
    return " ".join(" ".join(part).capitalize() + "." for part in parts)


class Sounding(threading.Thread):
    """Decodes what is there of all streams, together."""

    def __init__(self, codec: Codec, requests: list[SpeechRequest]) -> None:
        super().__init__(daemon=True)
        self._codec, self.first_s = codec, dict[str, float]()
        self._states = {r.request_id: codec.open(r) for r in requests}
        self.waiting: queue.Queue[tuple[str, Any] | None] = queue.Queue()

    def run(self) -> None:
        torch.set_num_threads(1)
        ended = False
        while not ended:
            items = [self.waiting.get()]
            while not self.waiting.empty():
                items.append(self.waiting.get())
            ended = None in items
            self._decode([item for item in items if item is not None])

    def _decode(self, items: list[tuple[str, Any]]) -> None:
        parts: dict[str, list[Any]] = {}
        for key, arrays in items:
            parts.setdefault(key, []).append({n: arrays[n] for n in self._codec.spec.frame})
        works = [Work(self._states[k], concatenate(v), final=False) for k, v in parts.items()]
        if works:
            self._codec.decode(works)
        for key in parts:
            self.first_s.setdefault(key, time.perf_counter())


def ours(family: PocketTts, codec: Codec, words: int, batch: int) -> Measured:
    """All requests at once, prompts included; the voice's positions are in the cache already."""
    requests = [SpeechRequest(f"r{i}", "m", "slt", text_of(words), seed=i) for i in range(batch)]
    engine = Engine(family, slots=8, blocks=700, metrics=Metrics(), sizes=ChunkSizes(1, 6))
    _spoken(engine, codec, [SpeechRequest("w", "m", "slt", "So.", seed=9)])
    return _spoken(engine, codec, requests)


def _spoken(engine: Engine, codec: Codec, requests: list[SpeechRequest]) -> Measured:
    sounding, ended, frames = Sounding(codec, requests), set[str](), 0

    def listen(events: Any) -> None:
        nonlocal frames
        for key, event in events:
            if isinstance(event, ChunkReady):
                frames += rows(event.arrays)
                sounding.waiting.put((key, event.arrays))
                engine.acknowledge(key)
            else:
                ended.add(key)

    engine.listen(listen)
    sounding.start()
    began_s = time.perf_counter()
    for request in requests:
        made = engine.family.prepare(request)
        engine.open(made, None, list(made.read([Text(request.text)], final=True)), final=True)
    while len(ended) < len(requests):
        engine.step()
    sounding.waiting.put(None)
    sounding.join()
    took_s = time.perf_counter() - began_s
    first_s = sum(at - began_s for at in sounding.first_s.values()) / len(requests)
    return Measured(first_s, frames / took_s)


def theirs(process: subprocess.Popen[str], words: int) -> Measured:
    """One request of the reference, which waits to be asked."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(text_of(words) + "\n")
    process.stdin.flush()
    for line in process.stdout:
        if line.startswith("{"):
            found = json.loads(line)
            return Measured(found["first_s"], found["rate"])
    raise SystemExit("the reference's process ended")


def main() -> None:
    """Print medians of rounds that take turns, when both are warm."""
    parser = argparse.ArgumentParser(prog="python -m tests.parity.pocket_speed")
    parser.add_argument("--python", default=REFERENCE)
    parser.add_argument("--language", default="english")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--frames", type=int, default=30, help="of each chunk of a text")
    parser.add_argument("--folder", type=Path, help="where the checkpoint stays for the next run")
    parser.add_argument("--words", type=int, nargs="*", default=WORDS)
    parser.add_argument("--batches", type=int, nargs="*", default=BATCHES)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with TemporaryDirectory() as passing:
        folder = given.folder or Path(passing)
        if not (folder / "config.json").exists():
            words = [word for count in WORDS for word in text_of(count).replace(".", "").split()]
            config = published(given.language)
            write_checkpoint(folder, config, ending=-1e3, words=words, dtype=torch.bfloat16)
        family, codec = PocketTts.load("m", folder), load_codec("m", folder)
        family._most = given.frames
        reference = ["-m", "tests.parity.reference.pocket_speed", str(folder), str(given.frames)]
        with subprocess.Popen(
            [given.python, *reference], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            theirs(process, 8)
            for batch in given.batches:
                ours(family, codec, 8, batch)
            for count in given.words:
                _print(family, codec, process, count, given)
            process.terminate()


def _print(
    family: PocketTts,
    codec: Codec,
    process: subprocess.Popen[str],
    words: int,
    given: argparse.Namespace,
) -> None:
    found: dict[str, list[Measured]] = {}
    for _ in range(given.rounds):
        found.setdefault("pocket-tts", []).append(theirs(process, words))
        for batch in given.batches:
            measured = ours(family, codec, words, batch)
            found.setdefault(f"Antiphon, {batch} at once", []).append(measured)
    print(f"{words} words, medians of {given.rounds} rounds:", flush=True)
    for name, rounds in found.items():
        first_s, rate = (median(column) for column in zip(*rounds, strict=True))
        print(f"  {name}: first sound {1e3 * first_s:.0f} ms, {rate:.1f} frames/s", flush=True)


if __name__ == "__main__":
    main()
