"""Write a synthetic checkpoint."""

from __future__ import annotations

import argparse
from pathlib import Path

from talker.models.qwen3_tts.synthetic.sizes import KINDS, SIZES
from talker.models.qwen3_tts.synthetic.write import write_checkpoint


def main() -> None:
    """Parse the arguments and write."""
    parser = argparse.ArgumentParser(prog="python -m talker.models.qwen3_tts.synthetic")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--kind", choices=KINDS, default="custom_voice")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    write_checkpoint(given.folder, given.size, given.kind, seed=given.seed)
    print(f"{given.folder}: a {given.size} {given.kind} checkpoint, drawn from seed {given.seed}")


if __name__ == "__main__":
    main()
