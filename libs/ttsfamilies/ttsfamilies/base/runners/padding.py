"""Rows that are computed only so that a product has enough of them."""

from __future__ import annotations

import torch
from torch import Tensor


def padded(x: Tensor, rows: int) -> Tensor:
    """`x` with zeros behind it, to at least `rows` rows."""
    missing = rows - len(x)
    return x if missing <= 0 else torch.cat([x, x.new_zeros(missing, *x.shape[1:])])
