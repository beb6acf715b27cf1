"""Silence for clients where there is nothing to be said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from gateway.audio.encoders import encoder_for
from gateway.audio.formats import AudioFormat
from gateway.audio.pipe import PcmBlock
from gateway.audio.provenance import Provenance

SILENCE_S: Final = 0.2


def silence(
    audio: AudioFormat, sample_rate: int, seconds: float, provenance: Provenance | None = None
) -> Iterator[PcmBlock]:
    """So many seconds in a format, complete."""
    encoder = encoder_for(audio, sample_rate, provenance)
    samples = round(sample_rate * seconds)
    yield PcmBlock(encoder.feed(np.zeros(samples, np.int16)), samples)
    if rest := encoder.finish():
        yield PcmBlock(rest, 0)
