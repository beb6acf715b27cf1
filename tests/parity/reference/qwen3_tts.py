"""Goldens of Qwen3-TTS: the talker's tokens, the encoders, the codec, the text, every key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.parity.reference import codec, keys, library, talker


def write(checkpoints: Path, goldens: Path) -> None:
    """Run every part."""
    arrays = {
        "talker": talker.goldens(checkpoints),
        "encoders": talker.encoders(checkpoints),
        "codec": codec.goldens(checkpoints),
        "library": library.goldens(),
    }
    for name, content in arrays.items():
        np.savez_compressed(goldens / f"{name}.npz", **content)
    _write(goldens / "tokens.json", talker.tokens(checkpoints))
    _write(goldens / "keys.json", keys.goldens(keys.read(checkpoints / "configs")))


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=True) + "\n", "utf-8")
