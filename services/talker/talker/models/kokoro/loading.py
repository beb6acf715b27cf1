"""Loading the half of a Kokoro checkpoint that decides on durations and pitch."""

from __future__ import annotations

from pathlib import Path

from talker.models.kokoro.family import Kokoro
from talker.models.loading import Loading
from ttscommon.engine.checkpoint import CheckpointError


def load(name: str, folder: Path, how: Loading) -> Kokoro:
    """A checkpoint's folder as model `name`; raises CheckpointError."""
    if how.device is not None:
        raise CheckpointError(
            "Kokoro's talker runs on the CPU, where a segment takes it a tenth of a second; its"
            " vocoder may have a device"
        )
    return Kokoro.load(name, folder)
