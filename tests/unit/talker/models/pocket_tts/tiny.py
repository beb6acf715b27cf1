"""A checkpoint small enough for the engine's conformance tests."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from antiphon_bench.synthetic.pocket_tts import write_checkpoint
from talker.models.pocket_tts.family import PocketTts
from talker.models.pocket_tts.net import PocketNet, load_encoder, load_net
from talker.models.pocket_tts.tokenizer import Tokenizer, load_tokenizer
from talker.models.pocket_tts.voices import Kept, load_voices
from ttscommon.engine.nn.pocket_tts import PocketEncoder
from ttscommon.engine.pocket_tts import load_config


@cache
def parts() -> tuple[PocketNet, PocketEncoder, Tokenizer, Kept | None]:
    """Networks, tokenizer and voices."""
    with TemporaryDirectory() as folder:
        path = Path(folder)
        write_checkpoint(path, seed=8, ending=-4.4)
        lm = load_config(path).flow_lm
        nets = load_net(path, "cpu"), load_encoder(path, "cpu")
        tokenizer = load_tokenizer(path, lm.lookup_table)
        return (*nets, tokenizer, load_voices(path, lm.transformer, "cpu"))


def tiny(most_frames: int | None = None) -> PocketTts:
    """most_frames: see PocketTts."""
    torch.set_num_threads(1)
    return PocketTts("m", *parts(), most_frames)
