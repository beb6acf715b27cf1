"""A codec small enough for tests, with the published rates."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from antiphon_bench.synthetic.higgs_audio import write_codec
from vocoder.codecs.higgs_audio.codec import HiggsCodec


@cache
def tiny() -> HiggsCodec:
    """In the engine, on the CPU."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        write_codec(Path(folder), seed=2)
        return HiggsCodec.load("m", Path(folder))
