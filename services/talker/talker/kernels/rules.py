"""What a draw may not be, whatever the sampling parameters."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Rules:
    """Penalty and prohibitions; they hold under greedy choice as well.

    seen: [rows, vocabulary] bool, ids drawn so far; penalty: [rows] float32, 1 for none;
    made: [rows] int64, frames so far; suppressed: [vocabulary] bool, ids that never come;
    end: the id that ends a sequence, not within the first `least_frames`.
    """

    seen: Tensor
    penalty: Tensor
    made: Tensor
    suppressed: Tensor
    end: int
    least_frames: int
