"""Repetition-aware sampling (VALL-E 2: Chen et al., 2024), as CosyVoice has it.

A draw from the nucleus; where that id is among the last few, it is out, and another is drawn from
all ids. The nucleus holds the likeliest ids until their share of all reaches top-p, but no more
than top-k of them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ttsfamilies.base.sampling.limits import NEVER
from ttsfamilies.base.sampling.noise import Noise
from ttsfamilies.base.sampling.nucleus import draw_among
from ttsfamilies.base.sampling.settings import Settings

NUCLEUS, AGAIN = 0, 1


def draw_unrepeated(
    logits: Tensor, noise: Noise, settings: Settings, recent: Tensor, forbidden: Tensor
) -> tuple[Tensor, Tensor]:
    """Ids [rows] int64 and whether each row's logits are finite [rows] bool.

    logits: [rows, ids]. recent: [rows, window] int64, ids drawn last. forbidden: [rows, ids] bool,
    as seen before any of it. A row of temperature 0 takes the likeliest id, repeated or not.
    Draws are numbers NUCLEUS and AGAIN of the step.
    """
    x = logits.float()
    finite = x.isfinite().all(-1)
    x = x.masked_fill(forbidden, NEVER)
    first = draw_among(x, noise, settings, _among_likeliest)
    repeated = (recent == first[:, None]).any(-1) & (settings.temperature > 0.0)
    left = x.scatter(1, first[:, None], NEVER)
    noisy = left + noise.gumbel(AGAIN, x.shape[1]) * settings.temperature[:, None]
    return torch.where(repeated, noisy.argmax(-1), first), finite


def _among_likeliest(x: Tensor, noise: Noise, settings: Settings, window: int) -> Tensor:
    assert settings.top_k is not None
    assert settings.top_p is not None
    values, ids = x.topk(window, -1)
    hot = settings.temperature.clamp(min=1e-9)[:, None]
    share = (values / hot - (x / hot).logsumexp(-1, keepdim=True)).exp()
    before = share.cumsum(-1) - share
    place = torch.arange(window, device=x.device)
    most = settings.top_k.masked_fill(settings.top_k < 1, window)[:, None]
    out = (before >= settings.top_p[:, None]) | (place >= most)
    noisy = values + noise.gumbel(NUCLEUS, ids) * settings.temperature[:, None]
    return ids.gather(1, noisy.masked_fill(out & (place > 0), NEVER).argmax(-1, keepdim=True))[:, 0]
