"""Receptive fields: how far to either side what a decoder gives depends on frames. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import Final

# Of kernels of seven: steps on either side, or before; and the dilations of residual units.
_AROUND: Final = 3
_BEFORE: Final = 2 * _AROUND
_DILATIONS: Final = (1, 3, 9)


def causal_frames(ratios: Sequence[int], rates: Sequence[int]) -> int:
    """Frames that the convolutions of a `CausalWave` look back, rounded up.

    In samples: six steps for each ConvNeXt at its rate, six for the first convolution, one for
    each transposed one, six times 1 + 3 + 9 for its residual units, six for the last.
    """
    whole = step = prod(ratios) * prod(rates)
    reach = 0
    for ratio in ratios:
        step //= ratio
        reach += _BEFORE * step
    reach += _BEFORE * step
    for rate in rates:
        reach += step
        step //= rate
        reach += _BEFORE * sum(_DILATIONS) * step
    return -(-(reach + _BEFORE) // whole)


def surrounding_samples(rates: Sequence[int]) -> int:
    """Samples before a frame's start and behind its end that the frame has a part in, by a
    `snake.WaveDecoder`.

    Three steps for the first convolution; half a stride and the three residual units for each
    block; three for the last convolution.
    """
    samples = _AROUND
    for rate in rates:
        samples = samples * rate + (rate + 1) // 2 + _AROUND * sum(_DILATIONS)
    return samples + _AROUND


def left_context(lag: int, samples: int, before: int | None = None) -> int:
    """See CodecSpec.context_frames: of frames of so many samples, `lag` of which are held back.

    before: frames that a frame's samples depend on; None where it looks back as far as ahead.
    """
    return ceil(2 * lag / samples) if before is None else before + ceil(lag / samples)
