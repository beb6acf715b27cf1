"""A checkpoint small enough for the engine's conformance tests."""

from functools import cache, partial
from pathlib import Path
from typing import TypeAlias

from tests.unit.ttsfamilies.brief import brief
from tests.unit.ttsfamilies.codecs import loaded
from ttsfamilies.pocket_tts.family import PocketTts, VoiceCache, load_voices
from ttsfamilies.pocket_tts.net import PocketEncoder, PocketNet, load_encoder, load_net
from ttsfamilies.pocket_tts.sizes import load_config
from ttsfamilies.pocket_tts.synthetic import write_checkpoint
from ttsfamilies.pocket_tts.tokenizer import Tokenizer, load_tokenizer

Parts: TypeAlias = tuple[PocketNet, PocketEncoder, Tokenizer, VoiceCache | None]


def read(folder: Path) -> Parts:
    """Networks, tokenizer and voices."""
    lm = load_config(folder).flow_lm
    nets = load_net(folder, "cpu"), load_encoder(folder, "cpu")
    tokenizer = load_tokenizer(folder, lm.lookup_table)
    return (*nets, tokenizer, load_voices(folder, lm.transformer, "cpu"))


@cache
def parts() -> Parts:
    return loaded(read, partial(write_checkpoint, ending=-4.4), seed=8)


def tiny(most_frames: int | None = None) -> PocketTts:
    """most_frames: of a passage."""
    return brief(PocketTts("m", *parts()), most_frames)
