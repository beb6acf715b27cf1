"""The reference's part of the comparison: speaks once for every batch size that it reads.

    python -m tests.parity.reference.speed NAME FOLDER

NAME is a module here with `speaker(folder)`, which returns what speaks so many texts at once and
tells the frames and the seconds of the loop alone, without the decoding of codes.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

import torch


def main() -> None:
    """Time one batch after the other."""
    torch.set_num_threads(1)
    reference = import_module(f"tests.parity.reference.{sys.argv[1]}")
    speak = reference.speaker(Path(sys.argv[2]))
    for line in sys.stdin:
        with torch.inference_mode():
            frames, took_s = speak(int(line))
        print(json.dumps({"rate": frames / took_s}), flush=True)


if __name__ == "__main__":
    main()
