"""Frames a second in our engine and in a reference's own loop, side by side on one thread.

    make goldens FAMILY=csm               # once: the reference's environment
    python -m tests.parity.speed csm [--rounds 5] [--batch 1 8]

Both speak one text alone and eight at once, drawn as the checkpoint says, from a small synthetic
checkpoint, in turn. Neither's decoding of codes to sound counts.
"""

import argparse
import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import torch

from talker.engine.engine import Engine
from talker.synthesis import synthesise
from tests.parity.families import FAMILIES
from tests.parity.subject import Subject
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import rows
from ttsfamilies.base.runners.model import TalkerModel
from ttsfamilies.talkers import load

BUILD: Final = Path("build/goldens")


def ours(subject: Subject[Any], model: TalkerModel, batch: int) -> float:
    """Frames a second, from the first request's opening to the last frame."""
    requests = subject.spoken_for_speed(batch)
    engine = Engine(model, slots=batch, blocks=subject.blocks, metrics=Metrics())
    began_s = time.perf_counter()
    spoken = synthesise(engine, requests, reference=subject.heard_for_speed())
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
    parser = argparse.ArgumentParser(prog="python -m tests.parity.speed")
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    given = parser.parse_args()
    torch.set_num_threads(1)
    subject = FAMILIES[given.family]
    with TemporaryDirectory() as folder:
        subject.write(Path(folder), subject.checkpoints[0])
        model = load("m", Path(folder))
        python = str(BUILD / subject.environment / "bin" / "python")
        command = [python, "-m", "tests.parity.reference.speed", given.family, folder]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            for batch in given.batch:
                pairs = [
                    (ours(subject, model, batch), theirs(process, batch))
                    for _ in range(given.rounds + 1)
                ]
                _print(given.family, batch, pairs[1:])  # the first warms up
            process.terminate()


def _print(family: str, batch: int, pairs: Sequence[tuple[float, float]]) -> None:
    mine, other = (median(rates) for rates in zip(*pairs, strict=True))
    ratios = [ours / theirs for ours, theirs in pairs]
    print(f"{family}, batch {batch}, medians of {len(pairs)} rounds, frames/s:", end=" ")
    print(f"Antiphon {mine:.1f}, reference {other:.1f}: {median(ratios):.2f} times", end=" ")
    print(f"({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
