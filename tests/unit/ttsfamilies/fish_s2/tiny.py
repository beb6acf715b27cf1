"""A checkpoint small enough for the engine's conformance tests: three codebooks."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from tests.unit.ttsfamilies.brief import brief
from ttsfamilies.base.lm.tokenizer import TextTokenizer
from ttsfamilies.fish_s2.family import FishNet, FishS2, load_net
from ttsfamilies.fish_s2.synthetic import write_checkpoint


@cache
def parts() -> tuple[FishNet, TextTokenizer]:
    """A network and its tokenizer."""
    with TemporaryDirectory() as folder:
        path = Path(folder)
        write_checkpoint(path, seed=8, codebooks=3, ending=3.0)
        return load_net(path, "cpu", "float32"), TextTokenizer.load(path)


def tiny(most_frames: int | None = None) -> FishS2:
    """most_frames: of a batch."""
    torch.set_num_threads(1)
    return brief(FishS2("m", *parts(), {"slt": ()}), most_frames)
