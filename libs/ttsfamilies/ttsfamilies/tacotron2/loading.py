"""Loading a Tacotron 2 checkpoint."""

from __future__ import annotations

from pathlib import Path

from ttscommon.engine.checkpoint import CheckpointError
from ttsfamilies.base.talker.loading import ModelOptions
from ttsfamilies.base.text.frontend import EnglishFrontend
from ttsfamilies.base.text.lexicon import LexiconError
from ttsfamilies.tacotron2.family import Tacotron2
from ttsfamilies.tacotron2.letters import Letters
from ttsfamilies.tacotron2.net import load_net


def load(name: str, folder: Path, how: ModelOptions) -> Tacotron2:
    """A checkpoint's folder as model `name`; raises CheckpointError.

    Frames are fed back, so all of it computes in float32 on every device.
    """
    net, config = load_net(folder, how.place)
    try:
        letters = Letters(EnglishFrontend.load(how.lexicon))
    except LexiconError as error:
        raise CheckpointError(f"numbers are read by the lexicon: {error}") from error
    return Tacotron2(name, net, config, letters)
