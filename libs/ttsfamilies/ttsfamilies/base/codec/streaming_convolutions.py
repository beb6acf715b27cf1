"""Convolutions that look ahead, over a sound that comes in pieces.

Each layer keeps the last of its inputs and gives an output as soon as all that it depends on is
there. So nothing is computed twice, and outputs lag behind by what the layers look ahead. What is
beyond either end of a sound is silence to every layer.

Layers are `flat` ones without padding, over [1, channels, 1, steps].
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import pad


class StreamContext:
    """Hands out what the layers kept, in their order, and keeps what they need next.

    kept: by an earlier piece; None at the beginning of a sound. ends: nothing follows this piece.
    """

    def __init__(self, kept: Sequence[Tensor] | None, *, ends: bool) -> None:
        self._old = None if kept is None else iter(kept)
        self._ends = ends
        self.kept: list[Tensor] = []

    def around(self, x: Tensor, reach: int) -> Tensor:
        """x with `reach` steps more on both sides of whatever can be computed by now."""
        x = self._behind(x, reach)
        if self._ends:
            x = pad(x, (0, reach))
        self._keep(x, max(0, x.shape[-1] - 2 * reach))
        return x

    def upsampled(self, up: nn.ConvTranspose2d, x: Tensor) -> Tensor:
        """By a layer whose outputs know two inputs at the most."""
        rate, before = up.stride[1], (up.kernel_size[1] - up.stride[1]) // 2
        new = x.shape[-1]
        x = self._behind(x, 0)
        # A kept input's outputs are known but for those that wait for the one behind it.
        begin = rate if x.shape[-1] > new else before
        if self._ends:
            x = pad(x, (0, 1))
        self._keep(x, max(0, x.shape[-1] - 1))
        end = x.shape[-1] * rate - (rate - before) * self._ends
        return up(x)[..., begin:end] if begin < end else _nothing(up, x)

    def in_step(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """As much of each as there is of all; the rest is kept."""
        whole = [self._behind(part, 0) for part in parts]
        steps = min(part.shape[-1] for part in whole)
        for part in whole:
            self._keep(part, steps)
        return [part[..., :steps] for part in whole]

    def _behind(self, x: Tensor, silent: int) -> Tensor:
        if self._old is None:
            return pad(x, (silent, 0)) if silent else x
        return torch.cat((next(self._old), x), -1)

    def _keep(self, x: Tensor, begin: int) -> None:
        self.kept.append(x[..., begin:].clone(memory_format=torch.channels_last))


def reach_of(conv: nn.Conv2d) -> int:
    """Steps on each side that an output depends on."""
    return conv.dilation[1] * (conv.kernel_size[1] - 1) // 2


def convolved(conv: nn.Conv2d, x: Tensor) -> Tensor:
    """Without the steps at both ends that it reaches for; none where there are no others."""
    if x.shape[-1] <= 2 * reach_of(conv):
        return _nothing(conv, x)
    found: Tensor = conv(x)
    return found


def _nothing(conv: nn.Conv2d | nn.ConvTranspose2d, x: Tensor) -> Tensor:
    return x.new_zeros(1, conv.out_channels, 1, 0)
