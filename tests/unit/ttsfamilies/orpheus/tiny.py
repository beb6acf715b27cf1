"""A checkpoint small enough for the engine's conformance tests."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from tests.unit.ttsfamilies.brief import brief
from ttscommon.wire.replicas import Voice
from ttsfamilies.base.lm.stepped import LlamaNet
from ttsfamilies.base.lm.tokenizer import TextTokenizer
from ttsfamilies.orpheus.family import Orpheus, load_net
from ttsfamilies.orpheus.synthetic import write_checkpoint


@cache
def parts() -> tuple[LlamaNet, TextTokenizer]:
    """A network and its tokenizer."""
    with TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), seed=3)
        return load_net(Path(folder), "cpu", "float32"), TextTokenizer.load(Path(folder))


def tiny() -> Orpheus:
    """With a voice that tests ask for; it speaks 12 frames at the most."""
    torch.set_num_threads(1)
    model = brief(Orpheus("m", *parts()), 12)
    model.spec = replace(model.spec, voices=(Voice("slt", "Slt", "en"), *model.spec.voices))
    return model
