"""Draws that are told, so that another implementation can draw the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any
from unittest.mock import patch

import torch


@contextmanager
def keyed_noise(noise: Callable[[int, int], Any]) -> Iterator[None]:
    """Draws become a function of how many there were before, and among how many ids: single
    requests only.
    """
    draws = count()

    def multinomial(weights: torch.Tensor, num_samples: int, **_: Any) -> torch.Tensor:
        assert num_samples == len(weights) == 1
        told = torch.from_numpy(noise(next(draws), weights.shape[1]))
        return (weights[0].log() + told).argmax().view(1, 1)

    with patch.object(torch, "multinomial", multinomial):
        yield
