"""What packed weights save: memory, and processor time of a frame, by weights, a process each.

python -m tests.benchmarks.packed [FOLDER [STREAMS ...]]: a checkpoint of Qwen3-TTS, drawn at the
published size of 0.6B if FOLDER has none.
"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, get_args

import torch

from talker.engine.engine import Engine
from talker.synthesis import synthesise
from ttscommon.engine.nn.packed import Weights
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import rows
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttsfamilies.qwen3_tts.synthetic import write_checkpoint
from ttsfamilies.talkers import load

_FRAMES: Final = 8
_TEXT: Final = "It's the end of the world, and one is singing to the user."
_MB: Final = 1 << 20


def _resident() -> int:
    """Bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def measured(folder: Path, weights: Weights | None, streams: list[int]) -> dict[str, float]:
    """MiB behind the load and at most until then; s of processor time a frame, by streams."""
    torch.set_num_threads(1)
    family = load("m", folder, weights=weights)
    found = {"mb": _resident() / _MB, "most_mb": resource.getrusage(0).ru_maxrss / 1024}
    voice = family.spec.voices[0].id
    for count in streams:
        engine = Engine(family, slots=count, blocks=64 * count, metrics=Metrics())
        sampling = Sampling(max_new_tokens=_FRAMES, temperature=0.0, subtalker_temperature=0.0)
        requests = [
            SpeechRequest(f"r{i}", "m", voice, _TEXT, seed=i, sampling=sampling, language="en")
            for i in range(count)
        ]
        began_s = time.thread_time()
        spoken = synthesise(engine, requests)
        found[f"s_{count}"] = (time.thread_time() - began_s) / sum(
            rows(one.arrays) for one in spoken
        )
    return found


def main(folder: Path, streams: list[int]) -> None:
    if not (folder / "config.json").exists():
        write_checkpoint(folder, "0.6b", seed=5)
    for weights in ("float32", *(kind for kind in get_args(Weights) if kind != "fp8")):
        command = [sys.executable, "-m", __spec__.name, "--one", str(folder), weights]
        done = subprocess.run([*command, *map(str, streams)], capture_output=True, check=True)
        told = json.loads(done.stdout.splitlines()[-1])
        print(weights, {name: round(number, 3) for name, number in told.items()}, flush=True)


if __name__ == "__main__":
    _, *given = sys.argv
    if given[:1] == ["--one"]:
        kind = None if given[2] == "float32" else given[2]
        print(json.dumps(measured(Path(given[1]), kind, [*map(int, given[3:])])))  # type: ignore[arg-type]
    elif given:
        main(Path(given[0]), [int(count) for count in given[1:]] or [1, 4])
    else:
        with TemporaryDirectory() as made:
            main(Path(made), [1, 4])
