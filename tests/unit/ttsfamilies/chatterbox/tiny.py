"""Checkpoints small enough for the engine's conformance tests."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from ttscommon.wire.fields import Arrays
from ttsfamilies.chatterbox.family import Chatterbox
from ttsfamilies.chatterbox.net import T3Net, load_net
from ttsfamilies.chatterbox.synthetic import write_checkpoint
from ttsfamilies.chatterbox.tokenizer import Graphemes
from ttsfamilies.chatterbox.voices import built_in


@cache
def parts(kind: str) -> tuple[T3Net, Graphemes, Arrays]:
    """A network, its tokenizer and its voice."""
    with TemporaryDirectory() as folder:
        path = Path(folder)
        write_checkpoint(path, kind, seed=3, ending=4.0, heard=9)
        net = load_net(path, "cpu", "float32")
        c = net.config
        read = Graphemes.load(path, c.text_ids, gpt=c.gpt, multilingual=c.multilingual)
        return net, read, built_in(path)["default"]


def tiny(kind: str = "english", most: int = 6, *, whole: bool = True) -> Chatterbox:
    """With a voice that tests ask for; it speaks so many tokens of a sentence at the most."""
    torch.set_num_threads(1)
    net, read, voice = parts(kind)
    return Chatterbox("m", net, read, None, {"slt": voice}, whole=whole, most_tokens=most)
