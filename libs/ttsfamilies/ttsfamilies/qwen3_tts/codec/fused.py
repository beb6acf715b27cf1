"""The decoder's step on a device by fused kernels, over states that stay where they are."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import CausalUpsample1d
from ttsfamilies.base.codec.causal_dac import CausalResidualUnit, ConvNeXtBlock, UpsampleBlock
from ttsfamilies.base.codec.kernels.rows import StateRows, UnsettledSum
from ttsfamilies.base.codec.kernels.way import FusedTails, Wave, packed_of
from ttsfamilies.qwen3_tts.codec.net import CodecDecoder, SnakeBeta


class FusedDecoder:
    """A CodecDecoder whose weights are where they stay. tensor_cores: see VocoderSettings."""

    def __init__(self, net: CodecDecoder, *, tensor_cores: bool = False) -> None:
        self._net = net
        self._packed = packed_of(net) if tensor_cores else {}
        self._waves: dict[nn.Module, Wave] = {
            module: _wave(module) for module in net.modules() if isinstance(module, SnakeBeta)
        }

    def step(self, codes: Tensor, rows: StateRows, state: Sequence[Tensor]) -> Tensor:
        """As CodecDecoder.step, moving the rows' part of all streams' states on.

        state: [states + 1, ...] each, in the order of CausalState.named; keys and values lie in
        a ring, position p at p modulo its size. Returns samples [rows, samples].
        """
        position, keys, values, *tails = state
        net, way = self._net, FusedTails(iter(tails), rows, self._packed)
        first = position.index_select(0, rows.slots).masked_fill(rows.fresh, 0)
        x = way.through(net.before, UnsettledSum(net.quantizer(codes))).settled()
        x = self._transformed(x.transpose(1, 2), first, rows, keys, values).transpose(1, 2)
        position.index_copy_(0, rows.slots, first + rows.lengths)
        for stretch, refine in zip(net.stretch, net.refine, strict=True):
            assert isinstance(stretch, CausalUpsample1d)
            assert isinstance(refine, ConvNeXtBlock)
            x = _refined(refine, way, way.through(stretch, UnsettledSum(x.contiguous())))
        waiting = way.through(net.widen, UnsettledSum(x.contiguous()))
        for block in net.ups:
            assert isinstance(block, UpsampleBlock)
            waiting = self._upsampled(block, way, waiting)
        samples = way.through(net.out, waiting, self._waves[net.snake]).settled()
        return samples[:, 0].clamp(-1, 1)

    def _transformed(
        self, x: Tensor, first: Tensor, rows: StateRows, keys: Tensor, values: Tensor
    ) -> Tensor:
        from ttsfamilies.base.codec.kernels.ring_triton import attend_ring

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return attend_ring(q, k, v, keys[:, layer], values[:, layer], rows, first)

        positions = first[:, None] + torch.arange(x.shape[1], device=x.device)
        x = self._net.transformer(self._net.project_in(x), positions, attend)
        return self._net.project_out(x)

    def _upsampled(
        self, block: UpsampleBlock, way: FusedTails, waiting: UnsettledSum
    ) -> UnsettledSum:
        waiting = way.through(block.up, waiting, self._waves[block.snake])
        for unit in block.units:
            assert isinstance(unit, CausalResidualUnit)
            found, base = way.beside(unit.wide, waiting, self._waves[unit.snake1])
            waved = way.waved(found, self._waves[unit.snake2])
            point = way.convolved(unit.point, waved)
            waiting = UnsettledSum(base.x, base.bias, point, unit.point.bias)
        return waiting


def _refined(block: ConvNeXtBlock, way: FusedTails, x: UnsettledSum) -> Tensor:
    """[rows, size, steps] -> the same."""
    mixed = way.through(block.depthwise, x).settled().transpose(1, 2)
    hidden = nn.functional.gelu(block.rise(block.norm(mixed)))
    return x.settled() + (block.scale * block.fall(hidden)).transpose(1, 2)


def _wave(snake: SnakeBeta) -> Wave:
    return snake.alpha.exp(), (snake.beta.exp() + 1e-9).reciprocal()
