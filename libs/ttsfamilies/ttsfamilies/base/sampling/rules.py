"""Limits of a draw, whatever the sampling parameters."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ttsfamilies.base.sampling.limits import NEVER


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

    def applied(self, logits: Tensor) -> Tensor:
        """Logits after the penalty, -inf where an id may not be drawn."""
        return self.punished(logits).masked_fill(self.forbidden(logits), NEVER)

    def punished(self, logits: Tensor) -> Tensor:
        """Logits after the penalty on ids drawn before: [rows, vocabulary] float32."""
        penalty = self.penalty[:, None]
        lower = torch.where(logits < 0, logits * penalty, logits / penalty)
        return torch.where(self.seen, lower, logits)

    def forbidden(self, logits: Tensor) -> Tensor:
        """[rows, vocabulary] bool: ids that may not be drawn now."""
        ids = torch.arange(logits.shape[1], device=logits.device)
        early = (self.made < self.least_frames)[:, None] & (ids == self.end)
        return early | self.suppressed
