"""A generator small enough for tests, with the published rates."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from ttsfamilies.tacotron2.codec import (
    MelVocoder,
    Overlap,
    OverlappingCodec,
    TacotronCodec,
    load_vocoder,
)
from ttsfamilies.tacotron2.facts import HifiganConfig
from ttsfamilies.tacotron2.synthetic import write_checkpoint


@cache
def parts() -> tuple[MelVocoder, HifiganConfig]:
    """A network, and what lies beside it."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), seed=2)
        return load_vocoder(Path(folder))


@cache
def tiny() -> TacotronCodec:
    """In the engine, with exact state."""
    return TacotronCodec("m", *parts())


@cache
def overlapping() -> OverlappingCodec:
    """In chunks of eight frames, two of them decoded again."""
    return OverlappingCodec("m", *parts(), Overlap(8, 2))
