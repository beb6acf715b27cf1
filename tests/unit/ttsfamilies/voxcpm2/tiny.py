"""A checkpoint small enough for the engine's conformance tests."""

from functools import cache
from pathlib import Path

from tests.unit.ttsfamilies.brief import brief
from tests.unit.ttsfamilies.codecs import loaded
from ttsfamilies.voxcpm2.blocks import VaeEncoder, load_encoder
from ttsfamilies.voxcpm2.facts import load_config
from ttsfamilies.voxcpm2.family import Voxcpm2, load
from ttsfamilies.voxcpm2.net import VoxcpmNet
from ttsfamilies.voxcpm2.request import CharacterTokenizer
from ttsfamilies.voxcpm2.synthetic import config, write_checkpoint


def read(folder: Path) -> tuple[VoxcpmNet, VaeEncoder, CharacterTokenizer]:
    """Networks and tokenizer."""
    encoder = load_encoder(folder, load_config(folder).audio_vae_config, "cpu")
    model = load("m", folder)
    return model._net, encoder, model._tokenizer


@cache
def parts() -> tuple[VoxcpmNet, VaeEncoder, CharacterTokenizer]:
    told = config(hidden=(32, 32, 1, 1), local=(32, 32, 1), heads=(4, 2, 8))
    return loaded(read, write_checkpoint, told, seed=8)


def tiny(most_patches: int | None = None) -> Voxcpm2:
    """most_patches: of a passage."""
    return brief(Voxcpm2("m", *parts()), most_patches)
