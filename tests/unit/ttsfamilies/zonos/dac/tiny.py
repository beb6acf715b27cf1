"""A codec small enough for tests, with the published rates."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from ttsfamilies.base.codec.base import Codec
from ttsfamilies.base.codec.options import CodecOptions
from ttsfamilies.zonos.codec import load
from ttsfamilies.zonos.synthetic_dac import write_codec


@cache
def tiny() -> Codec:
    """In the engine, on the CPU."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        write_codec(Path(folder), seed=2)
        return load("m", Path(folder), CodecOptions())
