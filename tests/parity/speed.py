"""Frames a second of our engine and of the official package, side by side on one CPU thread.

    make goldens                          # once: the official package's environment
    python -m tests.parity.speed

Both speak the same eight texts at once with a checkpoint's own sampling, 40 frames each, in turn.
Neither's decoding of codes to sound counts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import torch

from antiphon_bench.synthetic.qwen3_tts import write_checkpoint
from antiphon_bench.synthetic.qwen3_tts.sizes import SIZES
from talker.engine.engine import Engine
from talker.models.qwen3_tts.family import Qwen3Tts
from talker.synthesis import synthesise
from tests.parity.cases import SPEED_FRAMES, SPEED_TEXTS
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import rows
from ttscommon.wire.messages import Sampling, SpeechRequest

OFFICIAL: Final = Path("build/goldens/venv/bin/python")
BLOCKS: Final = 256


def ours(family: Qwen3Tts) -> tuple[int, float]:
    """Frames, and seconds from the first request's opening to the last frame."""
    sampling = Sampling(max_new_tokens=SPEED_FRAMES + 1)
    requests = [
        SpeechRequest(f"r{i}", "m", "vivian", text, language="english", seed=i, sampling=sampling)
        for i, text in enumerate(SPEED_TEXTS)
    ]
    engine = Engine(family, slots=len(requests), blocks=BLOCKS, metrics=Metrics())
    began_s = time.perf_counter()
    spoken = synthesise(engine, requests)
    took_s = time.perf_counter() - began_s
    return sum(rows(one.arrays) for one in spoken), took_s


def official(process: subprocess.Popen[str]) -> tuple[int, float]:
    """The same of the official package, which waits to be asked."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    for line in process.stdout:
        if line.startswith("{"):
            found = json.loads(line)
            return found["frames"], found["seconds"]
    raise SystemExit("the official package's process ended")


def main() -> None:
    """Print the medians and their ratio."""
    parser = argparse.ArgumentParser(prog="python -m tests.parity.speed")
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), given.size, "custom_voice", seed=1)
        family = Qwen3Tts.load("m", Path(folder))
        command = [str(OFFICIAL), "-m", "tests.parity.reference.speed", folder]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            rates = _compare(family, process, given.rounds)
            process.terminate()
    mine, theirs = (median(rate) for rate in zip(*rates, strict=True))
    print(f"batch {len(SPEED_TEXTS)}, {given.size}, medians of {given.rounds} rounds, frames/s:")
    print(f"  Antiphon {mine:.0f}, official package {theirs:.0f}: {mine / theirs:.1f} times")


def _compare(
    family: Qwen3Tts, process: subprocess.Popen[str], rounds: int
) -> list[tuple[float, float]]:
    rates = []
    for number in range(rounds + 1):  # the first warms up
        (mine, mine_s), (theirs, theirs_s) = ours(family), official(process)
        if number:
            rates.append((mine / mine_s, theirs / theirs_s))
    return rates


if __name__ == "__main__":
    main()
