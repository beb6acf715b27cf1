"""Model families: one file each, found by the name in a voice's config."""

from __future__ import annotations

from pathlib import Path

from talker.models.base import TalkerModel
from ttscommon.errors import UnknownModel


def load(family: str, name: str, path: Path) -> TalkerModel:
    """Load a model of `family` from `path`; torch is imported only for families that use it."""
    if family == "cantor":
        from talker.models.cantor import Cantor

        return Cantor.load(name, path)
    raise UnknownModel(f"there is no model family {family!r}", param="model")
