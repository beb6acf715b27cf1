"""Loading the half of a Kokoro checkpoint that decides on durations and pitch."""

from __future__ import annotations

from pathlib import Path

from talker.models.kokoro.family import Kokoro
from talker.models.kokoro.phones import ways_of
from talker.models.loading import ModelOptions
from talker.text.frontend import EnglishFrontend
from talker.text.lexicon import LexiconError
from ttscommon.engine.checkpoint import CheckpointError


def load(name: str, folder: Path, how: ModelOptions) -> Kokoro:
    """A checkpoint's folder as model `name`; raises CheckpointError."""
    if how.device is not None:
        raise CheckpointError(
            "Kokoro's talker runs on the CPU, where a segment takes it a tenth of a second; its"
            " vocoder may have a device"
        )
    try:
        english = EnglishFrontend.load(how.lexicon)
    except LexiconError as error:
        raise CheckpointError(f"English voices need the lexicon: {error}") from error
    return Kokoro.load(name, folder, ways_of(english))
