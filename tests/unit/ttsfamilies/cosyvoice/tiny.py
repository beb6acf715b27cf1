"""A checkpoint small enough for the engine's conformance tests."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import torch

from ttscommon.wire.fields import NOTHING, Arrays, Derived
from ttscommon.wire.messages import Reference, SpeechRequest
from ttsfamilies.base.talker.options import ModelOptions
from ttsfamilies.cosyvoice.family import CosyVoice, load
from ttsfamilies.cosyvoice.request import CosyPrepared
from ttsfamilies.cosyvoice.synthetic import write_checkpoint

SOUND = Reference("0" * 16 + "-" + "0" * 64, "Hello world, said the user.")
# 20 tokens of a recording: a whole turn and a part of one.
HEARD: Arrays = {"token": np.arange(0, 6000, 300, dtype=np.int16)}


class Recorded(CosyVoice):
    """One that speaks with the same recording where a request brings none."""

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> CosyPrepared:
        if request.reference is None:
            request = msgspec.structs.replace(request, reference=SOUND)
        return super().prepare(request, Derived(HEARD) if derived.reference is None else derived)


@cache
def parts(version: int) -> tuple[Any, ...]:
    """Network, tokenizer and what hears recordings."""
    with TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), version=version, seed=3, filling=1.4)
        model = load("m", Path(folder), ModelOptions())
        return model._net, model._vocabulary.tokenizer, model.recordings


def tiny(version: int = 2, *, streaming: bool = True, most_tokens: int = 30) -> Recorded:
    """streaming, most_tokens: see CosyVoice."""
    torch.set_num_threads(1)
    return Recorded("m", *parts(version), streaming=streaming, most_tokens=most_tokens)
