"""A checkpoint small enough for the engine's conformance tests: three codebooks."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from tests.unit.ttsfamilies.brief import brief
from ttsfamilies.base.lm.tokenizer import TextTokenizer
from ttsfamilies.higgs_audio.family import HiggsAudio
from ttsfamilies.higgs_audio.net import HiggsDefaults, HiggsNet, load_net
from ttsfamilies.higgs_audio.synthetic import SECOND, write_checkpoint


@cache
def parts(kind: str = SECOND) -> tuple[HiggsNet, TextTokenizer]:
    """A network and its tokenizer."""
    with TemporaryDirectory() as folder:
        path = Path(folder)
        write_checkpoint(path, kind=kind, seed=8, codebooks=3, ending=2.0)
        return load_net(path, "cpu", "float32"), TextTokenizer.load(path)


def tiny(most_rows: int | None = None, kind: str = SECOND) -> HiggsAudio:
    """most_rows: of a text."""
    torch.set_num_threads(1)
    return brief(HiggsAudio("m", *parts(kind), HiggsDefaults()), most_rows)
