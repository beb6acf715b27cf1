"""The way of a launch through a causal codec's convolutions, whose tails are moved on in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor, nn

from ttscommon.engine.nn import CausalConv1d, CausalUpsample1d
from ttsfamilies.base.codec.kernels.rows import StateRows, UnsettledSum

Convolution = CausalConv1d | CausalUpsample1d
# alpha and 1 / beta of a Snake, [channels] each.
Wave = tuple[Tensor, Tensor]


class FusedTails:
    """Hands each convolution its input behind its tail; biases are left to what reads on.

    tails: [states + 1, channels, tail] of every convolution in the order of the way. packed: see
    `packed_of`; what is not in it is the library's.
    """

    def __init__(
        self, tails: Iterator[Tensor], rows: StateRows, packed: Mapping[nn.Module, Tensor]
    ) -> None:
        self._tails, self._rows, self._rate = tails, rows, 1
        self._packed = packed

    def through(
        self, convolution: Convolution, x: UnsettledSum, wave: Wave | None = None
    ) -> UnsettledSum:
        """What the convolution makes of the sum, after a Snake if there is one."""
        return self._passed(convolution, x, wave, keep=False)[0]

    def beside(
        self, convolution: Convolution, x: UnsettledSum, wave: Wave | None = None
    ) -> tuple[UnsettledSum, UnsettledSum]:
        """The same, and the sum itself, for a residual."""
        found, summed = self._passed(convolution, x, wave, keep=x.added is not None)
        return found, x if x.added is None else UnsettledSum(summed)

    def waved(self, x: UnsettledSum, wave: Wave) -> Tensor:
        """The sum after a Snake."""
        from ttsfamilies.base.codec.kernels.behind_triton import put_behind

        return put_behind(x, None, self._rows, self._rate, wave)[0]

    def convolved(self, convolution: nn.Conv1d, x: Tensor) -> Tensor:
        """What a convolution makes of all that it reads, without its bias."""
        if (weight := self._packed.get(convolution)) is not None:
            from ttsfamilies.base.codec.kernels.convolve_triton import convolve

            return convolve(x, weight, convolution.dilation[0])
        told = convolution.dilation, convolution.groups
        return nn.functional.conv1d(x, convolution.weight, None, 1, 0, *told)

    def _passed(
        self, convolution: Convolution, x: UnsettledSum, wave: Wave | None, *, keep: bool
    ) -> tuple[UnsettledSum, Tensor]:
        from ttsfamilies.base.codec.kernels.behind_triton import put_behind

        tails, size, steps = next(self._tails), convolution.tail_size, x.x.shape[2]
        behind = tails if size else None
        fed, summed = put_behind(x, behind, self._rows, self._rate, wave, keep=keep)
        if isinstance(convolution, CausalUpsample1d):
            rate = convolution.rate
            found = nn.functional.conv_transpose1d(
                fed, convolution.weight, stride=rate, groups=convolution.groups
            )
            found = found[..., size * rate : (size + steps) * rate]
            self._rate *= rate
        else:
            found = self.convolved(convolution, fed)
        return UnsettledSum(found, convolution.bias), summed


def packed_of(net: nn.Module) -> dict[nn.Module, Tensor]:
    """Weights [taps, outputs, inputs] of the convolutions that `convolve_triton` is for."""
    return {
        module: module.weight.permute(2, 0, 1).contiguous()
        for module in net.modules()
        if isinstance(module, nn.Conv1d) and module.groups == 1 and len(module.weight) > 1
    }
