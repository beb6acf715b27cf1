"""A codec small enough for tests, with the published rates."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from antiphon_bench.synthetic.kokoro import write_checkpoint
from ttscommon.engine.kokoro import Voices
from vocoder.codecs.kokoro.codec import Kokoro
from vocoder.codecs.kokoro.net import load_net


@cache
def tiny() -> Kokoro:
    """In the engine, on the CPU, with a voice that tests ask for."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), seed=2)
        net = load_net(Path(folder))
        voices = Voices.load(Path(folder), net.config)
    return Kokoro("m", net, Voices({"slt": voices.pack("af_sky"), "af_sky": voices.pack("af_sky")}))
