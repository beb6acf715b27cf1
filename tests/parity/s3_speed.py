"""What a second of sound costs: ours at 1, 4 and 16 streams, and CosyVoice 2's own loop.

    python -m tests.parity.s3_speed [BUILD [ROUNDS]]

One thread each, whose own time is measured, small widths, in turns within one run; the reference
runs in BUILD/s3_flow, see `make goldens`. Its streams share one network, and take their time one
after the other.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
import torch

from tests.parity import s3_cases as cases
from tests.parity.make_goldens import environment
from ttscommon.engine.runtime import Failed, Finished
from ttscommon.process.metrics import Metrics
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.options import CodecOptions
from ttsfamilies.cosyvoice.s3_flow.codec import S3Flow
from ttsfamilies.cosyvoice.s3_flow.synthetic import write_codec
from ttsfamilies.cosyvoice.s3_flow.weights import Networks, load_networks
from vocoder.engine.engine import Engine
from vocoder.engine.stream import Event

STREAMS: Final = (1, 4, 16)
TOKENS: Final = 150
SECONDS: Final = TOKENS * 0.04
ROUNDS: Final = 2


def spoken_s(nets: Networks, streams: int, memory: int) -> tuple[float, float]:
    """Seconds of so many streams at once, all of whose tokens are there, and those until the last
    of their first sounds.
    """
    ended: list[Event] = []
    firsts: dict[str, float] = {}
    codec = S3Flow("m", "cosyvoice", nets, CodecOptions(memory_bytes=memory))
    engine = Engine(codec, slots=streams, metrics=Metrics())

    def listen(events: Sequence[tuple[str, Event]]) -> None:
        for key, event in events:
            firsts.setdefault(key, time.process_time())
            if isinstance(event, Finished | Failed):
                ended.append(event)

    engine.listen(listen)
    tokens = (np.arange(TOKENS) * 61 % 6561).astype(np.int16)
    started = time.process_time()
    for number in range(streams):
        request = SpeechRequest(str(number), "m", "", "text")
        engine.open(request, conditions=engine.conditions(request, cases.recording()))
        engine.feed(str(number), {"token": tokens})
        engine.finish(str(number))
    while len(ended) < streams:
        engine.step()
    assert not any(isinstance(event, Failed) for event in ended)
    return time.process_time() - started, max(firsts.values()) - started


def reference_s(python: Path, folder: Path) -> tuple[float, float]:
    """The same of one stream of the reference's."""
    command = [str(python), "-m", "tests.parity.reference.s3_speed", str(folder), str(TOKENS), "1"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    took, first = json.loads(done.stdout.splitlines()[-1])[0]
    return float(took), float(first)


def main() -> None:
    """Print milliseconds of one core for a second of sound."""
    torch.set_num_threads(1)
    build = Path(sys.argv[1] if len(sys.argv) > 1 else "build/goldens")
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    python = environment(build, cases.NAME)
    with TemporaryDirectory() as place:
        folder = Path(place)
        write_codec(folder, "cosyvoice2", seed=2)
        nets = load_networks(folder)
        ways = {"carried": 8 << 30, "computed again": 0}
        spoken_s(nets, 1, 8 << 30)
        found: dict[str, list[tuple[float, float]]] = {}
        for _ in range(rounds):
            found.setdefault("reference", []).append(reference_s(python, folder))
            for streams in STREAMS:
                for way, memory in ways.items():
                    took, first = spoken_s(nets, streams, memory)
                    found.setdefault(f"{way}, {streams}", []).append((took / streams, first))
    for name, rounds_of in found.items():
        times, firsts = zip(*rounds_of, strict=True)
        each = ", ".join(f"{1000 * t / SECONDS:.0f}" for t in times)
        print(
            f"{name}: {1000 * median(times) / SECONDS:.0f} ms a second of sound ({each}),", end=" "
        )
        print(f"first sound after {1000 * median(firsts):.0f} ms")


if __name__ == "__main__":
    main()
