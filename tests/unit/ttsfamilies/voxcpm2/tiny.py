"""A checkpoint small enough for the engine's conformance tests."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from tests.unit.ttsfamilies.brief import brief
from ttsfamilies.voxcpm2.blocks import VaeEncoder, load_encoder
from ttsfamilies.voxcpm2.facts import load_config
from ttsfamilies.voxcpm2.family import Voxcpm2, load
from ttsfamilies.voxcpm2.net import VoxcpmNet
from ttsfamilies.voxcpm2.request import CharacterTokenizer
from ttsfamilies.voxcpm2.synthetic import config, write_checkpoint


@cache
def parts() -> tuple[VoxcpmNet, VaeEncoder, CharacterTokenizer]:
    """Networks and tokenizer."""
    with TemporaryDirectory() as folder:
        told = config(hidden=(32, 32, 1, 1), local=(32, 32, 1), heads=(4, 2, 8))
        write_checkpoint(Path(folder), told, seed=8)
        encoder = load_encoder(Path(folder), load_config(Path(folder)).audio_vae_config, "cpu")
        model = load("m", Path(folder))
        return model._net, encoder, model._tokenizer


def tiny(most_patches: int | None = None) -> Voxcpm2:
    """most_patches: of a passage."""
    torch.set_num_threads(1)
    return brief(Voxcpm2("m", *parts()), most_patches)
