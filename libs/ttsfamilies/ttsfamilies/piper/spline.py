"""Rational-quadratic splines (Durkan et al., 2019), inverse, the identity outside -5 .. 5."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import pad, softplus

BINS: Final = 10
_BOUND: Final = 5.0
_LEAST: Final = 1e-3
"""Of a bin's width and height, and of a slope."""


def _edges(sizes: Tensor) -> Tensor:
    """[..., BINS] unnormalised sizes to [..., BINS + 1] edges from -5 to 5."""
    shares = _LEAST + (1 - _LEAST * BINS) * sizes.softmax(-1)
    edges = pad(shares.cumsum(-1), (1, 0)) * (2 * _BOUND) - _BOUND
    edges[..., 0], edges[..., -1] = -_BOUND, _BOUND
    return edges


def inverse_spline(y: Tensor, widths: Tensor, heights: Tensor, slopes: Tensor) -> Tensor:
    """The x [...] that a monotonous spline maps to y [...].

    widths, heights: [..., BINS] of its bins; slopes: [..., BINS - 1] at the edges between them; all
    before they are normalised.
    """
    inside = (y >= -_BOUND) & (y <= _BOUND)
    xs, ys = _edges(widths), _edges(heights)
    steep = _LEAST + softplus(pad(slopes, (1, 1), value=math.log(math.exp(1 - _LEAST) - 1)))
    within = y.clamp(-_BOUND, _BOUND)[..., None]
    # The last edge is moved so that the bound belongs to the last bin.
    tops = torch.cat((ys[..., :-1], ys[..., -1:] + 1e-6), -1)
    at = ((within >= tops).sum(-1, keepdim=True) - 1).clamp(0, BINS - 1)
    left, right = (xs.gather(-1, i) for i in (at, at + 1))
    low, high = (ys.gather(-1, i) for i in (at, at + 1))
    before, after = (steep.gather(-1, i) for i in (at, at + 1))
    wide, tall = right - left, high - low
    slope, over = tall / wide, within - low
    bend = before + after - 2 * slope
    a = over * bend + tall * (slope - before)
    b = tall * before - over * bend
    c = -slope * over
    root = 2 * c / (-b - (b * b - 4 * a * c).sqrt())
    return torch.where(inside, (root * wide + left)[..., 0], y)
