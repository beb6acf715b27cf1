"""A checkpoint small enough for the engine's conformance tests: three codebooks."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from tests.unit.ttsfamilies.brief import brief
from ttscommon.engine.nn.mimi import MimiEncoder
from ttsfamilies.base.lm.tokenizer import TextTokenizer
from ttsfamilies.csm.family import Csm, CsmNet, load_encoder, load_net
from ttsfamilies.csm.request import CsmGeneration
from ttsfamilies.csm.synthetic import write_checkpoint


@cache
def parts() -> tuple[CsmNet, MimiEncoder, TextTokenizer]:
    """Networks and tokenizer."""
    with TemporaryDirectory() as folder:
        path = Path(folder)
        write_checkpoint(path, seed=8, codebooks=3, ending=1.9)
        nets = load_net(path, "cpu", "float32"), load_encoder(path, "cpu")
        return (*nets, TextTokenizer.load(path))


def tiny(most_frames: int | None = None) -> Csm:
    """most_frames: of a text."""
    torch.set_num_threads(1)
    return brief(Csm("m", *parts(), CsmGeneration()), most_frames)
