"""The official package's part of the comparison: speaks once for every line it reads."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from tests.parity.cases import SPEED_FRAMES, SPEED_TEXTS
from tests.parity.reference.official import load
from tests.parity.reference.talker import recorded


def main() -> None:
    """Time `generate` alone, without the decoding of its codes."""
    official = load(Path(sys.argv[1]))
    count = len(SPEED_TEXTS)
    for _ in sys.stdin:
        with recorded(official.model) as kept:
            took_s = _timed(official.model)
            official.generate_custom_voice(
                list(SPEED_TEXTS),
                ["Vivian"] * count,
                language=["English"] * count,
                max_new_tokens=SPEED_FRAMES + 1,
            )
        frames = sum(len(codes) for codes in kept[0][0])
        print(json.dumps({"frames": frames, "seconds": took_s[0]}), flush=True)


def _timed(model: object) -> list[float]:
    """Seconds of each call of the model's generate, from now on."""
    plain, took_s = model.generate, []  # type: ignore[attr-defined]

    def generate(**arguments: object) -> object:
        began_s = time.perf_counter()
        found = plain(**arguments)
        took_s.append(time.perf_counter() - began_s)
        return found

    model.generate = generate  # type: ignore[attr-defined]
    return took_s


if __name__ == "__main__":
    main()
