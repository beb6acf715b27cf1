"""What becomes of sound on its way: codecs, telephones, other speeds, noise."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
import soxr

from gateway.audio import AudioFormat, Pcm
from gateway.audio.encoders.chosen import MULAW
from gateway.audio.formats import Codec
from tests.unit.gateway.audio.test_encoders import RATE, decoded, encoded

TELEPHONE_HZ: Final = 8000

Treated = tuple[Pcm, int]
"""Samples, and their rate in Hz."""


def packed(pcm: Pcm, codec: Codec, bit_rate: int) -> Treated:
    """Through one of the gateway's encoders, and FFmpeg's decoder."""
    return decoded(encoded(AudioFormat(codec, bit_rate=bit_rate), pcm, len(pcm))), RATE


def telephone(pcm: Pcm) -> Treated:
    """8 kHz, G.711 mu-law and back."""
    codes = MULAW[resampled(pcm, RATE, TELEPHONE_HZ).astype(int) + 32_768]
    every = np.arange(-32_768, 32_768)
    meant = np.array([every[code == MULAW].mean() for code in range(256)])
    return np.rint(meant[codes]).astype(np.int16), TELEPHONE_HZ


def faster(pcm: Pcm, factor: float) -> Treated:
    """Played faster, pitch and all."""
    return resampled(pcm, factor * RATE, RATE), RATE


def noisy(pcm: Pcm, decibels: float) -> Treated:
    """White noise, so far below the speech."""
    level = np.sqrt(np.mean(pcm.astype(float) ** 2)) * 10 ** (-decibels / 20)
    return _rounded(pcm + level * np.random.default_rng(0).standard_normal(len(pcm))), RATE


def resampled(pcm: Pcm, source_hz: float, target_hz: float) -> Pcm:
    return _rounded(soxr.resample(pcm.astype(np.float32), source_hz, target_hz))


def _rounded(sound: np.typing.NDArray[np.floating]) -> Pcm:
    return np.clip(np.rint(sound), -32_768, 32_767).astype(np.int16)


TREATMENTS: Final[dict[str, Callable[[Pcm], Treated]]] = {
    "nothing": lambda pcm: (pcm, RATE),
    "mp3, 64 kbit/s": partial(packed, codec="mp3", bit_rate=64_000),
    "Opus, 24 kbit/s": partial(packed, codec="opus", bit_rate=24_000),
    "Opus, 12 kbit/s": partial(packed, codec="opus", bit_rate=12_000),
    "mu-law, 8 kHz": telephone,
    "5 % faster": partial(faster, factor=1.05),
    "white noise 20 dB below": partial(noisy, decibels=20),
}
