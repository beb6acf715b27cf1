"""The weights of a vesper net as compiled steps take them."""

from __future__ import annotations

from typing import cast

import numpy as np
from torch import Tensor

from ttscommon.engine.kernels.convnext_numba import Floats, numbers
from ttscommon.engine.kernels.products_numba import Bits, Product
from ttscommon.engine.nn import TransformerBlock, product_of
from ttsfamilies.vesper.net import Drafter, VesperNet
from ttsfamilies.vesper.render_numba import Rendering
from ttsfamilies.vesper.step_numba import BackboneWeights, Guessing, Heads
from ttsfamilies.vesper.text import TextCodes


def backbone_of(net: VesperNet) -> BackboneWeights:
    """The blocks of a net whose products are halved."""
    blocks = [cast(TransformerBlock, block) for block in net.blocks]
    qkv, out, gate, down = (
        [product_of(getattr(block, name)) for block in blocks]
        for name in ("qkv", "out", "gate", "down")
    )
    widest = max(len(one.bias) for one in (*qkv, *out, *gate, *down))
    return BackboneWeights(
        attention_norm=_stacked([numbers(block.attention_norm.weight) for block in blocks]),
        qkv=_weights(qkv),
        out=_weights(out),
        mlp_norm=_stacked([numbers(block.mlp_norm.weight) for block in blocks]),
        gate=_weights(gate),
        down=_weights(down),
        norm=numbers(net.norm.weight),
        nothing=np.zeros(widest, np.float32),
        cosines=numbers(net.cosines),
        sines=numbers(net.sines),
    )


def heads_of(choosing: VesperNet | Drafter, net: VesperNet) -> Heads:
    """The heads of the talker, or of its drafter."""
    return Heads(
        product_of(choosing.move_head),
        numbers(choosing.move.weight),
        product_of(choosing.code0_head),
        numbers(net.refused),
    )


def guessing_of(net: VesperNet) -> Guessing:
    """The drafter, and the tables of what positions are told."""
    drafter = net.drafter
    return Guessing(
        product_of(drafter.told),
        numbers(drafter.norm.weight),
        product_of(drafter.gate),
        product_of(drafter.down),
        numbers(drafter.out_norm.weight),
        heads_of(drafter, net),
        numbers(net.code0.weight),
        numbers(net.held.weight),
    )


def rendering_of(net: VesperNet, text: TextCodes, silence: Tensor) -> Rendering:
    """What frames are rendered with: the energy head, and the tables of text codes."""
    energy = net.energy
    first, second = (product_of(layer) for layer in text.distances)
    return Rendering(
        numbers(net.move.weight),
        numbers(energy.code0.weight),
        numbers(energy.norm.weight),
        product_of(energy.gate),
        product_of(energy.down),
        product_of(energy.head),
        first,
        numbers(text.entries),
        second,
        silence.numpy(),
    )


def _weights(products: list[Product]) -> Bits:
    return np.stack([one.weight for one in products])


def _stacked(arrays: list[Floats]) -> Floats:
    return np.stack(arrays)
