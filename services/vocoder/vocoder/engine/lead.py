"""Silence in front of a request's speech: found in its first samples, and told with all of them.

It follows from the request's codes alone, like the samples: every vocoder that decodes its first
frame finds the same. It stays in the sound, so that samples go on following from frames; the
gateway leaves it out.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ttscommon.wire.fields import Arrays
from ttsfamilies.base.codec.base import CodecSpec

_AUDIBLE: Final = 10.0 ** (-50.0 / 20.0) * 32_768
# What is quiet right in front of a sound belongs to it.
_ATTACK_S: Final = 0.003


class Lead:
    """samples: how many are silence in front, as far as it is known. listens: `hear` is to tell."""

    def __init__(self, spec: CodecSpec, known: int = 0) -> None:
        self.samples = known
        self._silence = spec.silence
        self._attack = round(_ATTACK_S * spec.sample_rate)
        self._most = spec.samples_per_frame
        self.listens = False

    def begin(self, frames: Arrays) -> None:
        """The request's first frames are decoded. A pause that it begins with was asked for."""
        if self._silence and len(frames["codes"]):
            self.listens = tuple(frames["codes"][0].tolist()) != self._silence

    def hear(self, pcm: npt.NDArray[np.int16]) -> None:
        """What came of what has been decoded, [samples] from the request's first one on."""
        if self.listens and len(pcm):
            loud = np.abs(pcm[: self._most].astype(np.int32)) > _AUDIBLE
            quiet = int(loud.argmax()) if loud.any() else len(loud)
            self.samples, self.listens = max(0, quiet - self._attack), False
