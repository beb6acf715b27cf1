"""A checkpoint small enough for the engine's conformance tests."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from antiphon_bench.synthetic.orpheus import write_checkpoint
from talker.models.orpheus.family import Orpheus
from talker.models.orpheus.net import OrpheusNet, load_net
from talker.models.shared.tokenizer import TextTokenizer


@cache
def parts() -> tuple[OrpheusNet, TextTokenizer]:
    """A network and its tokenizer."""
    with TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), seed=3)
        return load_net(Path(folder), "cpu", "float32"), TextTokenizer.load(Path(folder))


def tiny() -> Orpheus:
    """With a voice that tests ask for; it speaks 12 frames at the most."""
    torch.set_num_threads(1)
    return Orpheus("m", *parts(), voices=("slt", "tara"), most_tokens=84)
