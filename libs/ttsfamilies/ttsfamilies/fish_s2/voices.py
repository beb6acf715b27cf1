"""Voices of a checkpoint: codes of recordings, with what is said in them. No torch.

The authors' encoder writes codes as `.npy`, [codebooks, frames]. A voice is NAME.npy with NAME.txt
in the folder `voices`, or a folder of such pairs there, one for each of several speakers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.wire.fields import Array
from ttsfamilies.base.lm.turns import EncodedTurn
from ttsfamilies.fish_s2.config import FishConfig

FOLDER: Final = "voices"
CODES: Final = ".npy"
WORDS: Final = ".txt"

Voices = Mapping[str, tuple[EncodedTurn, ...]]


def load_voices(checkpoint: Path, c: FishConfig) -> Voices:
    """By name, each speaker's recording; raises CheckpointError."""
    found = {}
    for path in sorted((checkpoint / FOLDER).glob("*")):
        if path.is_dir():
            found[path.name] = _speakers(sorted(path.glob(f"*{CODES}")), c)
        elif path.suffix == CODES:
            found[path.stem] = _speakers([path], c)
    return found


def _speakers(files: list[Path], c: FishConfig) -> tuple[EncodedTurn, ...]:
    return tuple(EncodedTurn(i, _words(path), _codes(path, c)) for i, path in enumerate(files))


def _words(path: Path) -> str:
    try:
        return path.with_suffix(WORDS).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path} has no transcript in {path.with_suffix(WORDS).name} beside it"
        raise CheckpointError(message) from error


def _codes(path: Path, c: FishConfig) -> Array:
    """[frames, codebooks] int64."""
    try:
        codes: Array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CheckpointError(f"{path} is truncated or damaged: encode it again") from error
    if codes.ndim != 2 or len(codes) != c.codebooks or codes.dtype.kind not in "iu":
        raise CheckpointError(f"{path} holds {codes.dtype} {list(codes.shape)}, no codes")
    if codes.size and not 0 <= codes.min() <= codes.max() < c.codes:
        raise CheckpointError(f"{path} holds codes beyond 0 to {c.codes - 1}")
    return codes.T.astype(np.int64)
