"""Recordings as encoders read them, at the rate that they want."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from torch import nn

from ttscommon.engine.nn.weights import digest
from ttscommon.sound.recordings import Floats
from ttscommon.wire.fields import Arrays


class NetworkRecordings:
    """Recordings that one network reads; see Recordings. derive: with it."""

    def __init__(self, net: nn.Module, derive: Callable[[bytes], Arrays]) -> None:
        self._net, self._derive = net, derive

    @cached_property
    def revision(self) -> str:
        return digest((self._net,))[:32]

    @torch.inference_mode()
    def derive(self, recording: bytes) -> Arrays:
        return self._derive(recording)


def resampled(samples: Floats, rate: int, wanted: int) -> Floats:
    """[samples] float32 at another rate, as the official package does it: soxr, high quality.

    As many samples as the recording's length fills, begun ones included.
    """
    if rate == wanted:
        return samples
    import soxr

    count = math.ceil(len(samples) * (wanted / rate))
    found = np.zeros(count, np.float32)
    made = soxr.resample(samples, rate, wanted, quality="HQ")[:count]
    found[: len(made)] = made
    return found
