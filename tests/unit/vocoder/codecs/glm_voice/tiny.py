"""A codec small enough for tests, with the published rates, kernels and steps."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from antiphon_bench.synthetic.glm_voice import write_codec
from vocoder.codecs.glm_voice.codec import GlmVoiceCodec
from vocoder.codecs.glm_voice.loading import load
from vocoder.codecs.loading import CodecOptions


@cache
def tiny() -> GlmVoiceCodec:
    """In the engine, on the CPU."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        write_codec(Path(folder), seed=2)
        return load("m", Path(folder), CodecOptions())
