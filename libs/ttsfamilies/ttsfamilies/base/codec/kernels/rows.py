"""Arguments of kernels of causal codecs: rows of resident states, and sums still to be made."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class StateRows:
    """slots: [rows] int64, where each row's state lies. fresh: [rows] bool, it begins anew.
    lengths: [rows] int64, its real frames.
    """

    slots: Tensor
    fresh: Tensor
    lengths: Tensor


@dataclass(frozen=True)
class UnsettledSum:
    """x + bias + added + added_bias: [rows, channels, steps] and [channels], the steps contiguous.

    Added up where the next convolution's input is made. None for what there is none of; `added`
    has a bias.
    """

    x: Tensor
    bias: Tensor | None = None
    added: Tensor | None = None
    added_bias: Tensor | None = None

    def settled(self) -> Tensor:
        """Of x and its bias alone."""
        assert self.added is None
        return self.x if self.bias is None else self.x + self.bias[:, None]
