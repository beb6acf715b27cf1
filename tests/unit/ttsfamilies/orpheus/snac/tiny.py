"""A codec small enough for tests, with the published rates."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from ttsfamilies.orpheus.codec import Snac, load
from ttsfamilies.orpheus.synthetic_snac import write_codec


@cache
def tiny() -> Snac:
    """In the engine, on the CPU."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        write_codec(Path(folder), seed=2)
        return load("m", Path(folder))
