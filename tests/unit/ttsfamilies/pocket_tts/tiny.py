"""A checkpoint small enough for the engine's conformance tests."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from tests.unit.ttsfamilies.brief import brief
from ttsfamilies.pocket_tts.family import PocketTts, VoiceCache, load_voices
from ttsfamilies.pocket_tts.net import PocketEncoder, PocketNet, load_encoder, load_net
from ttsfamilies.pocket_tts.sizes import load_config
from ttsfamilies.pocket_tts.synthetic import write_checkpoint
from ttsfamilies.pocket_tts.tokenizer import Tokenizer, load_tokenizer


@cache
def parts() -> tuple[PocketNet, PocketEncoder, Tokenizer, VoiceCache | None]:
    """Networks, tokenizer and voices."""
    with TemporaryDirectory() as folder:
        path = Path(folder)
        write_checkpoint(path, seed=8, ending=-4.4)
        lm = load_config(path).flow_lm
        nets = load_net(path, "cpu"), load_encoder(path, "cpu")
        tokenizer = load_tokenizer(path, lm.lookup_table)
        return (*nets, tokenizer, load_voices(path, lm.transformer, "cpu"))


def tiny(most_frames: int | None = None) -> PocketTts:
    """most_frames: of a passage."""
    torch.set_num_threads(1)
    return brief(PocketTts("m", *parts()), most_frames)
