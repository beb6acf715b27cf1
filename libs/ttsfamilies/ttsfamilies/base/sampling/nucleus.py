"""Draws among the likeliest ids, without sorting all of them where few can be meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from ttsfamilies.base.sampling.limits import NEVER
from ttsfamilies.base.sampling.noise import Noise
from ttsfamilies.base.sampling.settings import Settings

# On the CPU, sorting all ids takes longer than the network that made them.
_NARROW: Final = 64
# (logits, noise, settings, how many of the likeliest ids are looked at) -> ids
Among = Callable[[Tensor, Noise, Settings, int], Tensor]


def draw_among(x: Tensor, noise: Noise, settings: Settings, among: Among) -> Tensor:
    """Ids [rows] int64 that `among` draws of logits [rows, ids].

    Which way a row goes is its own affair, and nothing is read back on a device.
    """
    if not x.is_cpu:
        return among(x, noise, settings, x.shape[1])
    assert settings.top_k is not None
    narrow = (settings.top_k > 0) & (settings.top_k < min(_NARROW, x.shape[1]))
    drawn = torch.empty(len(x), dtype=torch.int64)
    for chosen, window in ((narrow, min(_NARROW, x.shape[1])), (~narrow, x.shape[1])):
        index = chosen.nonzero()[:, 0]
        if len(index):
            own = noise.rows(index), settings.rows(index)
            drawn[index] = among(x[index], *own, window)
    return drawn


def draw_unscaled(logits: Tensor, noise: Noise, draw: int, settings: Settings) -> Tensor:
    """One id a row, of those that top-k and top-p leave of logits as they are; the temperature
    counts behind them (Fish Audio's order). Of the likeliest ids those remain whose shares, their
    own included, add up to no more than top-p; the first one always does.
    """

    def among(x: Tensor, noise: Noise, settings: Settings, window: int) -> Tensor:
        assert settings.top_k is not None
        assert settings.top_p is not None
        values, ids = x.topk(window, -1)
        shares = (values - x.logsumexp(-1, keepdim=True)).exp()
        place = torch.arange(window, device=x.device)
        most = settings.top_k.masked_fill(settings.top_k < 1, window)[:, None]
        out = (shares.cumsum(-1) > settings.top_p[:, None]) | (place >= most)
        noisy = values + noise.gumbel(draw, ids) * settings.temperature[:, None]
        chosen = noisy.masked_fill(out & (place > 0), NEVER).argmax(-1, keepdim=True)
        return ids.gather(1, chosen)[:, 0]

    return draw_among(logits.float(), noise, settings, among)
