"""A step of the vesper decoder around its Fourier transforms, compiled: all hops of all streams.

Streams lie behind each other without padding, and products are of whole numbers, so that a
stream's samples follow from its own codes alone. What one carries is one array; see `parts_of`.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from ttscommon.engine.kernels.compiled import compiled, exp, floats, ints, part, tuple_of
from ttscommon.engine.kernels.convnext_numba import Floats, Ints, bent, normed
from ttscommon.engine.kernels.integer_products_numba import (
    INTEGER_PRODUCT,
    INTEGER_PRODUCTS,
    IntegerProduct,
    Shorts,
    multiply_integers,
    of_layer,
    shortened,
)
from ttsfamilies.vesper.codec.layers import WINDOWS
from ttsfamilies.vesper.codec.sound_numba import pulses_of

_ZERO: Final = np.float32(0.0)
_ONE: Final = np.float32(1.0)
_EPS: Final = np.float32(1e-5)
_HOPS: Final = 4
"""Of a frame."""
_PITCH_SCALE: Final = np.float32(4.0)
_PITCH_UNIT_HZ: Final = np.float32(200.0)
_MIDDLE: Final = np.float32(math.log(187.0 / 200.0))
_FIVE: Final = np.float32(5.0)
_REACH: Final = WINDOWS - 1
_TOGETHER: Final = 60
"""Hops whose wide numbers stay in the second cache."""


class Tables(NamedTuple):
    """pitch: [codes, 4, 2]. energy: [codes, 4]. text: [2, codes, 2 * text_dim]."""

    pitch: Floats
    energy: Floats
    text: Floats


class Blocks(NamedTuple):
    """[blocks, ...] each. taps: [blocks, kernel, dim]; ahead: [blocks]."""

    taps: Floats
    bias: Floats
    norm_weight: Floats
    norm_bias: Floats
    rise: IntegerProduct
    fall: IntegerProduct
    scale: Floats
    ahead: Ints


class Decoder(NamedTuple):
    """The weights; first: of `kernel` hops' inputs, the oldest hop's before the others'."""

    tables: Tables
    first: IntegerProduct
    blocks: Blocks
    norm_weight: Floats
    norm_bias: Floats
    head: IntegerProduct


class Streams(NamedTuple):
    """Of a step: codes [frames, 4] of all streams; frames: [streams] how many each has, and
    unheard: [streams] of how many, its first ones, no samples are made. level, span: [streams].
    """

    codes: Ints
    frames: Ints
    unheard: Ints
    level: Floats
    span: Floats


class Carried(NamedTuple):
    """inputs: [streams, past, inputs]. tails: [streams, blocks, past, dim]. f0: [streams, late].
    source: [streams, fft - hop]. windows: [streams, 3, fft]. phase: [streams].
    """

    inputs: Floats
    tails: Floats
    f0: Floats
    source: Floats
    windows: Floats
    phase: Ints


TABLES: Final = tuple_of(Tables, floats(3), floats(2), floats(3))
BLOCKS: Final = tuple_of(
    *(Blocks, floats(3), floats(2), floats(2), floats(2), INTEGER_PRODUCTS, INTEGER_PRODUCTS),
    *(floats(2), ints(1)),
)
DECODER: Final = tuple_of(
    Decoder, TABLES, INTEGER_PRODUCT, BLOCKS, floats(1), floats(1), INTEGER_PRODUCT
)
STREAMS: Final = tuple_of(Streams, ints(2), ints(1), ints(1), floats(1), floats(1))
CARRIED: Final = tuple_of(Carried, floats(3), floats(4), floats(2), floats(2), floats(3), ints(1))


@part
def _pitch(tables: Tables, code: int, hop: int, level: np.float32, span: np.float32) -> np.float32:
    """`VesperDecoder.pitch`."""
    if not tables.pitch[code, hop, 1] > _ONE:
        return _ZERO
    away = tables.pitch[code, hop, 0] / _PITCH_SCALE - _MIDDLE
    return _PITCH_UNIT_HZ * exp(_MIDDLE + level + span * away)


@part
def _told(tables: Tables, codes: Ints, f0: Floats, inputs: Floats) -> None:
    """`VesperDecoder.inputs`: codes [frames, 4] and f0 [hops] to inputs [hops, inputs]."""
    text_dim = inputs.shape[1] - 2
    for hop in range(len(inputs)):
        frame, at = hop // _HOPS, hop % _HOPS
        first, second = tables.text[0, codes[frame, 2]], tables.text[1, codes[frame, 3]]
        begin = (at // 2) * text_dim
        for i in range(text_dim):
            inputs[hop, i] = first[begin + i] + second[begin + i]
        inputs[hop, text_dim] = np.log1p(f0[hop]) / _FIVE
        inputs[hop, text_dim + 1] = tables.energy[codes[frame, 1], at]


@part
def _shift(past: Floats, new: Floats) -> None:
    """The last len(past) rows of both become `past`."""
    kept, count = len(past), len(new)
    for row in range(kept - count):
        past[row] = past[row + count]
    for row in range(max(0, kept - count), kept):
        past[row] = new[count - kept + row]


@part
def _read(
    net: Decoder, streams: Streams, carried: Carried, hops: Ints, source: Floats, x: Floats
) -> None:
    """Pulses of all hops, behind each stream's last ones, and what the first layer makes."""
    past, width = carried.inputs.shape[1:]
    late, total = carried.f0.shape[1], hops[-1]
    reach = carried.source.shape[1]
    size = reach // _REACH
    q = np.zeros((total, net.first.weight.shape[1] * 2), np.int16)
    scales = np.empty(total, np.float32)
    for row in range(len(streams.frames)):
        begin, count = hops[row], hops[row + 1] - hops[row]
        codes = streams.codes[begin // _HOPS : (begin + count) // _HOPS]
        around, given = (
            np.empty(late + count, np.float32),
            np.empty((past + count, width), np.float32),
        )
        around[:late], given[:past] = carried.f0[row], carried.inputs[row]
        for hop in range(count):
            around[late + hop] = _pitch(
                net.tables,
                codes[hop // _HOPS, 0],
                hop % _HOPS,
                streams.level[row],
                streams.span[row],
            )
        _told(net.tables, codes, around[late:], given[past:])
        carried.f0[row], carried.inputs[row] = around[count:], given[count:]
        flat = given.reshape(-1)
        for hop in range(count):
            of_hop = flat[hop * width : (hop + past + 1) * width]
            scales[begin + hop] = shortened(of_hop, q[begin + hop])
        pulses = source[row * reach + begin * size :]
        pulses[:reach] = carried.source[row]
        made = pulses[reach : reach + count * size]
        carried.phase[row] = pulses_of(around[: count + 2], count, carried.phase[row], made)
        carried.source[row] = pulses[count * size : count * size + reach]
    multiply_integers(q, scales, net.first, x)


@part
def _mix(
    blocks: Blocks, block: int, seen: Floats, count: int, mixed: Floats, q: Shorts, scales: Floats
) -> None:
    """One stream's hops mixed with those around, seen [past + count, dim], to whole numbers."""
    taps, bias = blocks.taps[block], blocks.bias[block]
    for hop in range(count):
        for i in range(len(mixed)):
            mixed[i] = bias[i]
        for tap in range(len(taps)):
            for i in range(len(mixed)):
                mixed[i] += seen[hop + tap, i] * taps[tap, i]
        normed(mixed, blocks.norm_weight[block], blocks.norm_bias[block], _EPS)
        scales[hop] = shortened(mixed, q[hop])


@part
def _through(net: Decoder, carried: Carried, hops: Ints, x: Floats) -> None:
    """[hops, dim] of all streams through the blocks, in place."""
    blocks, (total, dim) = net.blocks, x.shape
    streams, past, wide = len(hops) - 1, carried.tails.shape[2], blocks.rise.bias.shape[1]
    seen = np.empty((streams * past + total, dim), np.float32)
    mixed, added = np.empty(dim, np.float32), np.empty((total, dim), np.float32)
    hidden = np.empty((_TOGETHER, wide), np.float32)
    q, scales = np.empty((total, dim), np.int16), np.empty(total, np.float32)
    q_wide = np.empty((_TOGETHER, wide), np.int16)
    for block in range(len(blocks.taps)):
        for row in range(streams):
            begin, count = hops[row], hops[row + 1] - hops[row]
            mine = seen[row * past + begin : (row + 1) * past + begin + count]
            mine[:past], mine[past:] = carried.tails[row, block], x[begin : begin + count]
            _mix(blocks, block, mine, count, mixed, q[begin:], scales[begin:])
            carried.tails[row, block] = mine[count:]
        rise, fall = of_layer(blocks.rise, block), of_layer(blocks.fall, block)
        for first in range(0, total, _TOGETHER):
            last = min(total, first + _TOGETHER)
            size = last - first
            multiply_integers(q[first:last], scales[first:last], rise, hidden[:size])
            bent(hidden[:size])
            for hop in range(size):
                scales[first + hop] = shortened(hidden[hop], q_wide[hop])
            multiply_integers(q_wide[:size], scales[first:last], fall, added[first:last])
        for row in range(streams):
            # An input so many hops back is the one that the block's output is of.
            first = row * past + past - blocks.ahead[block]
            for hop in range(hops[row], hops[row + 1]):
                for i in range(dim):
                    x[hop, i] = seen[first + hop, i] + blocks.scale[block, i] * added[hop, i]


@part
def _first_window(unheard: int) -> int:
    """The first hop of a chunk of which a window is made; three windows reach into the next hop."""
    return max(0, unheard * _HOPS - _REACH)


@compiled(DECODER, STREAMS, CARRIED, ints(1), floats(1), floats(2), floats(2), floats(2))
def parts_of(
    net: Decoder, streams: Streams, carried: Carried, hops: Ints, window: Floats,
    x: Floats, parts: Floats, pulses: Floats,
) -> None:  # fmt: skip
    """Spectral parts [windows, ...] and the pulses around them [windows, fft], and all that streams
    carry but their last windows. hops: [streams + 1] where each stream's begin; x: [hops, dim].
    """
    count, fft, reach = len(streams.frames), len(window), carried.source.shape[1]
    size = fft - reach
    source = np.empty(count * reach + hops[-1] * size, np.float32)
    _read(net, streams, carried, hops, source, x)
    _through(net, carried, hops, x)
    q, scales = np.empty((len(parts), x.shape[1]), np.int16), np.empty(len(parts), np.float32)
    at = 0
    for row in range(count):
        for hop in range(hops[row] + _first_window(streams.unheard[row]), hops[row + 1]):
            normed(x[hop], net.norm_weight, net.norm_bias, _EPS)
            scales[at] = shortened(x[hop], q[at])
            begin = row * reach + hop * size
            for i in range(fft):
                pulses[at, i] = source[begin + i] * window[i]
            at += 1
    multiply_integers(q, scales, net.head, parts)


@compiled(STREAMS, floats(3), floats(2), floats(1), floats(1), floats(1))
def added_up(
    streams: Streams, before: Floats, windows: Floats, window: Floats, gain: Floats, samples: Floats
) -> None:
    """Samples of all streams' heard hops, behind each other, summed from the oldest window on.
    before: [streams, 3, fft], the last windows, which become the new ones.
    """
    at = end = 0
    fft, size = len(window), len(gain)
    for row in range(len(streams.frames)):
        unheard, count = streams.unheard[row] * _HOPS, streams.frames[row] * _HOPS
        first = _first_window(streams.unheard[row])
        mine = np.empty((_REACH + count - first, fft), np.float32)
        mine[:_REACH] = before[row]
        for hop in range(count - first):
            for i in range(fft):
                mine[_REACH + hop, i] = windows[at + hop, i] * window[i]
        at += count - first
        for hop in range(unheard - first, count - first):
            for i in range(size):
                total = mine[hop, _REACH * size + i]
                for later in range(1, WINDOWS):
                    total += mine[hop + later, (_REACH - later) * size + i]
                samples[end + i] = total * gain[i]
            end += size
        before[row] = mine[count - first :]
