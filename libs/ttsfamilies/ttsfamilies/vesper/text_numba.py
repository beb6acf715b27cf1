"""Reading of an utterance, for processors: its encoders and contexts in compiled loops.

Reading goes on beside the engine's thread. What it calls in one piece, without the interpreter's
lock, makes neither wait for the other; as some hundred operations of torch it did, and two encoders
side by side took as long as one after the other.
"""

from __future__ import annotations

from typing import Final, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ttscommon.engine.kernels.compiled import INT, compiled, exp, floats, ints, part, tuple_of
from ttscommon.engine.kernels.convnext_numba import bent, normed, numbers
from ttscommon.engine.kernels.integer_products_numba import (
    INTEGER_PRODUCT,
    INTEGER_PRODUCTS,
    IntegerProduct,
    multiply_rounded,
    of_layer,
    stacked,
)
from ttscommon.engine.kernels.products_numba import Product, product_of
from ttscommon.engine.nn import ConvNeXt, HalfLinear, integers_in
from ttsfamilies.vesper.net import BEFORE, CONTEXT, VesperNet
from ttsfamilies.vesper.text import VesperTextEncoder

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

_EPS: Final = np.float32(1e-5)
_ZERO: Final = np.float32(0.0)
_ONE: Final = np.float32(1.0)
_NOTHING: Final = np.float32(-np.inf)


class _Norm(NamedTuple):
    """[.., dim] each."""

    weight: Floats
    bias: Floats


class _Convolutions(NamedTuple):
    """Of all ConvNeXt blocks, [blocks, ...] each. taps: [blocks, kernel, dim]; bias, scale:
    [blocks, dim].
    """

    taps: Floats
    bias: Floats
    norm: _Norm
    rise: IntegerProduct
    fall: IntegerProduct
    scale: Floats


class _Layer(NamedTuple):
    """The transformer layer."""

    attention_norm: _Norm
    qkv: IntegerProduct
    out: IntegerProduct
    mlp_norm: _Norm
    rise: IntegerProduct
    fall: IntegerProduct


_NORMS: Final = tuple_of(_Norm, floats(2), floats(2))
_NORM: Final = tuple_of(_Norm, floats(1), floats(1))
_CONVOLUTIONS: Final = tuple_of(
    *(_Convolutions, floats(3), floats(2), _NORMS, INTEGER_PRODUCTS, INTEGER_PRODUCTS, floats(2))
)
_LAYER: Final = tuple_of(_Layer, *2 * (_NORM, INTEGER_PRODUCT, INTEGER_PRODUCT))


class CompiledEncoder:
    """A `VesperTextEncoder` as it is now, with its products halved and then rounded."""

    def __init__(self, encoder: VesperTextEncoder) -> None:
        self._table = numbers(encoder.embedding.weight)
        self._convolutions = _convolutions([cast(ConvNeXt, c) for c in encoder.convolutions])
        layer = encoder.layer
        self._layer = _Layer(
            _norm(layer.attention_norm),
            integers_in(layer.qkv),
            integers_in(layer.out),
            _norm(layer.mlp_norm),
            integers_in(layer.rise),
            integers_in(layer.fall),
        )
        self._norm, self._rounds = _norm(encoder.norm), encoder.rounds
        self._heads = layer.heads

    def __call__(self, tokens: Tensor) -> Tensor:
        """[1, tokens] int64 -> [1, tokens, dim]."""
        ids = tokens[0].numpy()
        x = self._table[ids]
        _encode(x, self._convolutions, self._layer, self._norm, self._rounds, self._heads)
        return torch.from_numpy(x)[None]


class CompiledContexts:
    """`token_contexts` of a net, with its product halved."""

    def __init__(self, net: VesperNet) -> None:
        layer = cast(HalfLinear, net.context_token)
        self._product, self._size = cast(Product, layer.product), layer.out_features
        self._table = numbers(net.context_symbol.weight)

    def __call__(self, tokens: Tensor, prosody: Tensor) -> Floats:
        """[1, tokens] int64 and [1, tokens, prosody] -> [tokens, dim]."""
        ids, told = tokens[0].numpy(), prosody[0].numpy()
        padded = np.concatenate((told, np.zeros((2, told.shape[1]), np.float32)))
        ahead = np.concatenate((told, padded[1:-1], padded[2:]), 1)
        out = np.empty((len(ids), self._size), np.float32)
        product_of(ahead, self._product, out, 0, len(self._product.weight))
        _add_symbols(ids, self._table, out)
        return out


def _norm(norm: nn.LayerNorm) -> _Norm:
    return _Norm(numbers(norm.weight), numbers(norm.bias))


def _convolutions(blocks: list[ConvNeXt]) -> _Convolutions:
    norms = [_norm(block.norm) for block in blocks]
    taps = [numbers(block.depthwise.weight[:, 0].T) for block in blocks]
    biases = [numbers(cast(Tensor, block.depthwise.bias)) for block in blocks]
    rises = [integers_in(block.rise) for block in blocks]
    falls = [integers_in(block.fall) for block in blocks]
    return _Convolutions(
        np.stack(taps),
        np.stack(biases),
        _Norm(np.stack([n.weight for n in norms]), np.stack([n.bias for n in norms])),
        *(stacked(rises), stacked(falls)),
        np.stack([numbers(block.scale) for block in blocks]),
    )


@part
def _mlp(x: Floats, rise: IntegerProduct, fall: IntegerProduct, wide: Floats, out: Floats) -> None:
    """`out` becomes what two products and a gelu make of x."""
    multiply_rounded(x, rise, wide)
    bent(wide)
    multiply_rounded(wide, fall, out)


@part
def _convolve(x: Floats, c: _Convolutions, block: int, mixed: Floats, wide: Floats) -> None:
    tokens, dim = x.shape
    kernel = c.taps.shape[1]
    for token in range(tokens):
        mixed[token] = c.bias[block]
        for tap in range(kernel):
            at = token + tap - kernel // 2
            if 0 <= at < tokens:
                for i in range(dim):
                    mixed[token, i] += x[at, i] * c.taps[block, tap, i]
        normed(mixed[token], c.norm.weight[block], c.norm.bias[block], _EPS)
    fallen = np.empty((tokens, dim), np.float32)
    _mlp(mixed, of_layer(c.rise, block), of_layer(c.fall, block), wide, fallen)
    for token in range(tokens):
        for i in range(dim):
            x[token, i] += c.scale[block, i] * fallen[token, i]


@part
def _attend(qkv: Floats, heads: int, out: Floats) -> None:
    """[tokens, 3 * dim] to [tokens, dim], every token to all."""
    tokens, dim = out.shape
    size = dim // heads
    scale = _ONE / np.sqrt(np.float32(size))
    scores, keys = np.empty(tokens, np.float32), np.empty((size, tokens), np.float32)
    values = np.empty((tokens, size), np.float32)
    for head in range(heads):
        branch = head * size
        for other in range(tokens):
            for i in range(size):
                keys[i, other] = qkv[other, dim + branch + i] * scale
                values[other, i] = qkv[other, 2 * dim + branch + i]
        for token in range(tokens):
            _mix(qkv[token, branch : branch + size], keys, scores)
            highest, total = _NOTHING, _ZERO
            for other in range(tokens):
                highest = max(highest, scores[other])
            for other in range(tokens):
                scores[other] = exp(scores[other] - highest)
            for other in range(tokens):
                total += scores[other]
            for other in range(tokens):
                scores[other] /= total
            _mix(scores, values, out[token, branch : branch + size])


@part
def _mix(shares: Floats, rows: Floats, out: Floats) -> None:
    """[rows] of [rows, n] to [n], four rows at a time: each time `out` is read and written."""
    count, size = rows.shape
    whole = count - count % 4
    out[:] = _ZERO
    for row in range(0, whole, 4):
        a, b, c, d = shares[row], shares[row + 1], shares[row + 2], shares[row + 3]
        for i in range(size):
            first = a * rows[row, i] + b * rows[row + 1, i]
            out[i] += first + c * rows[row + 2, i] + d * rows[row + 3, i]
    for row in range(whole, count):
        for i in range(size):
            out[i] += shares[row] * rows[row, i]


@part
def _transform(x: Floats, layer: _Layer, heads: int, mixed: Floats, wide: Floats) -> None:
    tokens, dim = x.shape
    qkv, added = np.empty((tokens, 3 * dim), np.float32), np.empty((tokens, dim), np.float32)
    for token in range(tokens):
        mixed[token] = x[token]
        normed(mixed[token], layer.attention_norm.weight, layer.attention_norm.bias, _EPS)
    multiply_rounded(mixed, layer.qkv, qkv)
    _attend(qkv, heads, mixed)
    multiply_rounded(mixed, layer.out, added)
    for token in range(tokens):
        for i in range(dim):
            x[token, i] += added[token, i]
        mixed[token] = x[token]
        normed(mixed[token], layer.mlp_norm.weight, layer.mlp_norm.bias, _EPS)
    _mlp(mixed, layer.rise, layer.fall, wide, added)
    for token in range(tokens):
        for i in range(dim):
            x[token, i] += added[token, i]


@compiled(floats(2), _CONVOLUTIONS, _LAYER, _NORM, INT, INT)
def _encode(
    x: Floats, convolutions: _Convolutions, layer: _Layer, norm: _Norm, rounds: int, heads: int
) -> None:
    """[tokens, dim] embedded, to what the encoder makes of them, in place."""
    tokens, dim = x.shape
    mixed = np.empty((tokens, dim), np.float32)
    wide = np.empty((tokens, convolutions.rise.bias.shape[1]), np.float32)
    for block in range(len(convolutions.taps)):
        _convolve(x, convolutions, block, mixed, wide)
    for _ in range(rounds):
        _transform(x, layer, heads, mixed, wide)
    for token in range(tokens):
        normed(x[token], norm.weight, norm.bias, _EPS)


@compiled(ints(1), floats(2), floats(2))
def _add_symbols(ids: Ints, table: Floats, out: Floats) -> None:
    """What each token's neighbours say by their places is added to its row; nothing is 0."""
    tokens, dim = out.shape
    symbols = len(table) // CONTEXT
    total = np.empty(dim, np.float32)
    for token in range(tokens):
        total[:] = _ZERO
        for place in range(CONTEXT):
            at = token + place - BEFORE
            row = place * symbols + (ids[at] if 0 <= at < tokens else 0)
            for i in range(dim):
                total[i] += table[row, i]
        for i in range(dim):
            out[token, i] += total[i]
