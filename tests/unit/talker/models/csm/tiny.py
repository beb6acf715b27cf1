"""A checkpoint small enough for the engine's conformance tests: four codebooks."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from talker.models.csm.config import Drawing
from talker.models.csm.family import Csm
from talker.models.csm.net import load_encoder, load_net
from talker.models.csm.synthetic import write_checkpoint
from talker.models.shared.tokenizer import TextTokenizer


@cache
def parts() -> tuple[Any, ...]:
    """Networks and tokenizer."""
    with TemporaryDirectory() as folder:
        path = Path(folder)
        write_checkpoint(path, seed=8, codebooks=4, ending=1.9)
        nets = load_net(path, "cpu", "float32"), load_encoder(path, "cpu")
        return (*nets, TextTokenizer.load(path))


def tiny(most_frames: int | None = None) -> Csm:
    """most_frames: see Csm."""
    torch.set_num_threads(1)
    return Csm("m", *parts(), Drawing(), most_frames)
