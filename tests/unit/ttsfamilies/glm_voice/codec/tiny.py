"""A codec small enough for tests, with the published rates, kernels and steps."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from ttsfamilies.glm_voice.codec import GlmVoiceCodec, load
from ttsfamilies.glm_voice.synthetic import write_codec


@cache
def tiny() -> GlmVoiceCodec:
    """In the engine, on the CPU."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        write_codec(Path(folder), seed=2)
        return load("m", Path(folder))
