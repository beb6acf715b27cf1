"""Qwen3-TTS, tiny or in the published sizes, of every kind; codec included."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ttsfamilies.base.synthetic.families import SyntheticFamily
from ttsfamilies.qwen3_tts.synthetic.sizes import KINDS, SIZES
from ttsfamilies.qwen3_tts.synthetic.write import write_checkpoint

__all__ = ["FAMILY", "write_checkpoint"]


def write_family(folder: Path, size: str, kind: str, seed: int) -> None:
    """A talker and its codec."""
    write_checkpoint(folder, size, kind, seed=seed)  # type: ignore[arg-type]


FAMILY: Final = SyntheticFamily(write_family, "a talker and its codec", sizes=SIZES, kinds=KINDS)
