"""An Orpheus checkpoint's config, and the ids that all of them share. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ttscommon.engine.checkpoint import CheckpointError, read_json
from ttsfamilies.base.lm.llama import LlamaSizes

SLOTS: Final = 7
CODES: Final = 4096
BEGIN_TEXT: Final = 128_000
END_TURN: Final = 128_009
BEGIN_SPEECH: Final = 128_257
END_SPEECH: Final = 128_258
BEGIN_HUMAN: Final = 128_259
END_HUMAN: Final = 128_260
BEGIN_MODEL: Final = 128_261
FIRST_AUDIO: Final = 128_266
END_AUDIO: Final = FIRST_AUDIO + SLOTS * CODES
# Sequences in training were no longer.
MOST_POSITIONS: Final = 8192


@dataclass(frozen=True)
class LlamaConfig(LlamaSizes):
    """config.json."""

    @property
    def positions(self) -> int:
        return min(self.max_position_embeddings, MOST_POSITIONS)


def load_config(folder: Path) -> LlamaConfig:
    """Read and check a checkpoint's config.json; raises CheckpointError."""
    path = folder / "config.json"
    config = read_json(path, LlamaConfig)
    for wrong in _problems(config):
        raise CheckpointError(f"{path}: {wrong}")
    return config


def _problems(c: LlamaConfig) -> list[str]:
    found = []
    if c.model_type != "llama" or c.vocab_size < END_AUDIO:
        found.append(f"a {c.model_type} with {c.vocab_size} ids has no place for seven codebooks")
    return [*found, *c.problems()]
