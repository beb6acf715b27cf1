"""The reach of causal DACs: frames that their convolutions look back. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

_BEFORE: Final = 6  # steps, of kernels of seven
_DILATED: Final = _BEFORE * (1 + 3 + 9)


def tail_frames(ratios: Sequence[int], rates: Sequence[int]) -> int:
    """Frames that the convolutions of a `CausalWave` reach back, rounded up.

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
        reach += _DILATED * step
    return -(-(reach + _BEFORE) // whole)
