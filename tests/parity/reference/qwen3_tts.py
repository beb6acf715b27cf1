"""Goldens of Qwen3-TTS: the talker's tokens, the encoders, the codec, the text, every key."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.parity.cases import SPEED_FRAMES, SPEED_TEXTS
from tests.parity.reference import keys, library, talker
from tests.parity.reference.official import load


def speaker(folder: Path) -> Callable[[int], tuple[int, float]]:
    """See speed.py."""
    official = load(folder)

    def speak(count: int) -> tuple[int, float]:
        with talker.recorded(official.model) as kept:
            took_s = _timed(official.model)
            official.generate_custom_voice(
                list(SPEED_TEXTS[:count]),
                ["Vivian"] * count,
                language=["English"] * count,
                max_new_tokens=SPEED_FRAMES + 1,
            )
        return sum(len(codes) for codes in kept[0][0]), took_s[0]

    return speak


def _timed(model: Any) -> list[float]:
    """Seconds of each call of the model's generate, as long as it is recorded."""
    plain, took_s = model.generate, []

    def generate(**arguments: Any) -> Any:
        began_s = time.perf_counter()
        found = plain(**arguments)
        took_s.append(time.perf_counter() - began_s)
        return found

    model.generate = generate
    return took_s


def write(checkpoints: Path, goldens: Path) -> None:
    """Run every part."""
    arrays = {
        "talker": talker.goldens(checkpoints),
        "encoders": talker.encoders(checkpoints),
        "codec": talker.codec(checkpoints),
        "library": library.goldens(),
    }
    for name, content in arrays.items():
        np.savez_compressed(goldens / f"{name}.npz", **content)
    _write(goldens / "tokens.json", talker.tokens(checkpoints))
    _write(goldens / "keys.json", keys.goldens(keys.read(checkpoints / "configs")))


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=True) + "\n", "utf-8")
