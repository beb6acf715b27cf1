"""A checkpoint small enough for the engine's conformance tests."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from ttscommon.wire.fields import NOTHING, Arrays, Derived
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.talker.options import ModelOptions
from ttsfamilies.step_audio2.family import StepAudio2, load
from ttsfamilies.step_audio2.request import StepPrepared
from ttsfamilies.step_audio2.synthetic import write_checkpoint

VOICE: Arrays = {"token": np.zeros(20, np.int16)}


class Voiced(StepAudio2):
    """One that answers with the same voice where a request brings none."""

    most = 0

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> StepPrepared:
        heard = derived._replace(reference=derived.reference or VOICE)
        found = super().prepare(request, heard)
        found.most_frames = min(found.most_frames, self.most)
        return found


@cache
def parts() -> tuple[Any, ...]:
    """Networks, tokenizer and what hears voices."""
    with TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), seed=3)
        model = load("m", Path(folder), ModelOptions())
        return model._net, model._tokenizer, model.recordings


def tiny(most: int = 24) -> Voiced:
    """most: tokens of an answer."""
    torch.set_num_threads(1)
    model = Voiced("m", *parts())
    model.most = most
    return model
