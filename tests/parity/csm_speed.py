"""Frames a second of CSM in our engine and of transformers' own loop, side by side on one thread.

    make goldens                          # once: the reference's environment
    antiphon bench parity-csm [--python PYTHON]

Both speak the same text once and eight times at once, drawn, 20 frames each of 32 codebooks, in
turn, from the small synthetic checkpoint. Neither's decoding of codes to sound counts.
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

from talker.engine.engine import Engine
from talker.models.csm.family import Csm
from talker.synthesis import synthesise
from tests.parity.csm_cases import SPEED_FRAMES, TEXT
from tests.parity.families.csm import write_csm
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import rows
from ttscommon.wire.messages import Sampling, SpeechRequest

REFERENCE: Final = "build/goldens/transformers/bin/python"
BATCHES: Final = (1, 8)


def ours(family: Csm, batch: int) -> float:
    """Frames a second, from the first request's opening to the last frame."""
    sampling = Sampling(max_new_tokens=SPEED_FRAMES)
    requests = [
        SpeechRequest(f"r{i}", "m", "", TEXT, seed=i, sampling=sampling) for i in range(batch)
    ]
    engine = Engine(family, slots=batch, blocks=256, metrics=Metrics())
    began_s = time.perf_counter()
    spoken = synthesise(engine, requests)
    return sum(rows(one.arrays) for one in spoken) / (time.perf_counter() - began_s)


def theirs(process: subprocess.Popen[str], batch: int) -> float:
    """The same of the reference, which waits to be asked."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{batch}\n")
    process.stdin.flush()
    for line in process.stdout:
        if line.startswith("{"):
            return float(json.loads(line)["rate"])
    raise SystemExit("the reference's process ended")


def main() -> None:
    """Print the medians and their ratio."""
    parser = argparse.ArgumentParser(prog="python -m tests.parity.csm_speed")
    parser.add_argument("--python", default=REFERENCE)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        write_csm(Path(folder))
        family = Csm.load("m", Path(folder), device="cpu", dtype="float32")
        command = [given.python, "-m", "tests.parity.reference.csm_speed", folder]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            for batch in BATCHES:
                _print(family, process, batch, given.rounds)
            process.terminate()


def _print(family: Csm, process: subprocess.Popen[str], batch: int, rounds: int) -> None:
    pairs = [(ours(family, batch), theirs(process, batch)) for _ in range(rounds + 1)]
    mine, other = (median(rate) for rate in zip(*pairs[1:], strict=True))  # the first warms up
    print(f"batch {batch}, medians of {rounds} rounds, frames/s:")
    print(f"  Antiphon {mine:.1f}, transformers {other:.1f}: {mine / other:.1f} times")


if __name__ == "__main__":
    main()
