"""The weights of a vesper net as compiled steps take them."""

from __future__ import annotations

from typing import cast

import numpy as np
from torch import Tensor, nn

from ttscommon.engine.kernels.convnext_numba import numbers
from ttscommon.engine.kernels.integer_products_numba import IntegerProduct, stacked
from ttscommon.engine.nn import TransformerBlock, integers_in
from ttsfamilies.vesper.net import Drafter, VesperNet
from ttsfamilies.vesper.render_numba import Rendering
from ttsfamilies.vesper.step_numba import BackboneWeights, Guessing, Heads
from ttsfamilies.vesper.text import TextCodes


def backbone_of(net: VesperNet) -> BackboneWeights:
    """The blocks of a net whose products are halved."""
    blocks = [cast(TransformerBlock, block) for block in net.blocks]
    qkv, out, gate, down = (
        stacked([_bytes_of(getattr(block, name)) for block in blocks])
        for name in ("qkv", "out", "gate", "down")
    )
    return BackboneWeights(
        attention_norm=np.stack([numbers(block.attention_norm.weight) for block in blocks]),
        qkv=qkv,
        out=out,
        mlp_norm=np.stack([numbers(block.mlp_norm.weight) for block in blocks]),
        gate=gate,
        down=down,
        norm=numbers(net.norm.weight),
        cosines=numbers(net.cosines),
        sines=numbers(net.sines),
    )


def heads_of(choosing: VesperNet | Drafter, net: VesperNet) -> Heads:
    """The heads of the talker, or of its drafter."""
    return Heads(
        _bytes_of(choosing.move_head),
        numbers(choosing.move.weight),
        _bytes_of(choosing.code0_head),
        numbers(net.refused),
    )


def guessing_of(net: VesperNet) -> Guessing:
    """The drafter, and the tables of what positions are told."""
    drafter = net.drafter
    return Guessing(
        _bytes_of(drafter.told),
        numbers(drafter.norm.weight),
        _bytes_of(drafter.gate),
        _bytes_of(drafter.down),
        numbers(drafter.out_norm.weight),
        heads_of(drafter, net),
        numbers(net.code0.weight),
        numbers(net.held.weight),
    )


def rendering_of(net: VesperNet, text: TextCodes, silence: Tensor) -> Rendering:
    """What frames are rendered with: the energy head, and the tables of text codes."""
    energy = net.energy
    first, second = (integers_in(layer) for layer in text.distances)
    return Rendering(
        numbers(net.move.weight),
        numbers(energy.code0.weight),
        numbers(energy.norm.weight),
        integers_in(energy.gate),
        integers_in(energy.down),
        integers_in(energy.head),
        first,
        numbers(text.entries),
        second,
        silence.numpy(),
    )


def _bytes_of(layer: nn.Module) -> IntegerProduct:
    return integers_in(layer, narrow=True)
