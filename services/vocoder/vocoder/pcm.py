"""Float samples to 16-bit ones: a voice's gain, one rounding for all parts, silence in front."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from ttscommon.wire import parameters
from ttscommon.wire.errors import UnknownVoice
from ttscommon.wire.fields import Arrays
from ttscommon.wire.replicas import Voice
from ttsfamilies.base.codec.base import CodecSpec

FULL_SCALE = 32768.0
# Above the knee (-3 dB of full scale) peaks are bent, so that none is above the ceiling (-1 dB).
_KNEE: Final = 10 ** (-3 / 20)
_CEILING: Final = 10 ** (-1 / 20)
_WORD: Final = re.compile(r"\w+(?:['\u2019]\w+)*")


def gain_of(
    voices: Iterable[Voice], name: str, other_db: float = 0.0, text: str | None = None
) -> float:
    """How many times as loud as its codec makes it a voice is heard, a blend by its shares.

    other_db: of voices that say no gain, others' voices among them. text: all that is said, None
    where that is not known at the beginning.
    """
    words = _words(text or "")
    gains = {voice.id: (voice.gain_db or other_db) + _more_db(voice, words) for voice in voices}
    try:
        shares = ((name, 1.0),) if name in gains else parameters.parse(name, gains)
    except UnknownVoice:
        gains, shares = {name: other_db}, ((name, 1.0),)
    return float(10 ** (sum(share * gains[one] for one, share in shares) / 20))


def _words(text: str) -> int:
    """0 for a text with numbers, of which no one knows how long they are said."""
    return 0 if any(sign.isdigit() for sign in text) else len(_WORD.findall(text))


def _more_db(voice: Voice, words: int) -> float:
    return voice.short_db[words - 1] if 0 < words <= len(voice.short_db) else 0.0


def levelled(samples: npt.NDArray[np.float32], gain: float) -> npt.NDArray[np.float32]:
    """[samples] so many times as loud. Each is a function of itself alone, wherever it is cut."""
    if gain == 1.0:
        return samples
    louder = samples * np.float32(gain)
    size = np.abs(louder)
    over = size > _KNEE
    if over.any():
        room = _CEILING - _KNEE
        bent = _KNEE + room * np.tanh((size[over] - _KNEE) / room)
        louder[over] = np.copysign(bent, louder[over])
    return louder


def to_pcm(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.int16]:
    """[samples] float32 in -1..1 -> int16: rounded half away from zero, clipped.

    Raises FloatingPointError for NaN or infinity: noise at full scale must not be played.
    """
    if not np.isfinite(samples).all():
        raise FloatingPointError("the codec gave samples that are no numbers")
    scaled = samples.astype(np.float64) * FULL_SCALE
    rounded = np.trunc(scaled + np.copysign(0.5, scaled))
    return np.clip(rounded, -FULL_SCALE, FULL_SCALE - 1).astype(np.int16)


# Silence in front of a request's speech: found in its first samples, and told with all of them.
#
# It follows from the request's codes alone, like the samples: every vocoder that decodes its first
# frame finds the same. It stays in the sound, so that samples go on following from frames; the
# gateway leaves it out.


_AUDIBLE: Final = 10.0 ** (-50.0 / 20.0) * FULL_SCALE
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
