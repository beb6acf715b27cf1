"""Rows by the experts that compute them, in tiles of a fixed number, for a kernel."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Groups(NamedTuple):
    """Pairs of a row and an expert, sorted by expert, in tiles of one expert each.

    order: [pairs] int64, the pair at each place; expert, first: [tiles] int32, a tile's expert and
    its first place; stop: [tiles] int32, the end of that expert's places, 0 for tiles that are not
    needed. There are as many tiles as any choice could need, so that shapes are fixed.
    """

    order: Tensor
    expert: Tensor
    first: Tensor
    stop: Tensor


def grouped(chosen: Tensor, experts: int, tile: int) -> Groups:
    """Group [rows, few] choices; nothing is read on the host."""
    flat = chosen.flatten()
    pairs = len(flat)
    counts = torch.zeros(experts, dtype=torch.int64, device=flat.device)
    counts.scatter_add_(0, flat, torch.ones_like(flat))
    ends = counts.cumsum(0)
    tiles = (counts + tile - 1) // tile
    last = tiles.cumsum(0)
    at = torch.arange(min(pairs, pairs // tile + experts), device=flat.device)
    expert = torch.searchsorted(last, at, right=True)
    needed = expert < experts
    known = expert.clamp(max=experts - 1)
    first = ends[known] - counts[known] + (at - last[known] + tiles[known]) * tile
    stop = torch.where(needed, ends[known], 0)
    return Groups(flat.argsort(stable=True), known.int(), first.int(), stop.int())
