"""Loading the half of a Kokoro checkpoint that decides on durations and pitch."""

from __future__ import annotations

from pathlib import Path

from ttscommon.engine.checkpoint import CheckpointError
from ttsfamilies.base.talker.loading import ModelOptions
from ttsfamilies.base.text.frontend import EnglishFrontend
from ttsfamilies.base.text.lexicon import LexiconError
from ttsfamilies.kokoro.family import Kokoro
from ttsfamilies.kokoro.phones import ways_of


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
