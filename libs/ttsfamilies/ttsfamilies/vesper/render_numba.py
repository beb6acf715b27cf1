"""Energy and text of frames in one compiled call: what `Vesper.render` computes with torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ttscommon.engine.kernels.blocks_numba import add_norm_rows, swiglu_rows
from ttscommon.engine.kernels.compiled import (
    FLOAT,
    INT,
    compiled,
    floats,
    ints,
    part,
    tuple_of,
    types,
)
from ttscommon.engine.kernels.integer_products_numba import (
    INTEGER_PRODUCT,
    IntegerProduct,
    multiply_rounded,
)
from ttsfamilies.base.sampling.noise import to_gumbel
from ttsfamilies.base.sampling.noise_numba import even_rows
from ttsfamilies.vesper.chain_numba import Floats, Ints, draw_codes

Shorts = NDArray[np.int16]


class Rendering(NamedTuple):
    """Weights. move: [MOVES, dim]; code: [codes, dim]; entries: [text codes, 2 * text_dim] of the
    first of both text codebooks. silence: [4], the codes of a silent frame.
    """

    move: Floats
    code: Floats
    norm: Floats
    gate: IntegerProduct
    down: IntegerProduct
    head: IntegerProduct
    first: IntegerProduct
    entries: Floats
    second: IntegerProduct
    silence: Ints


class RawFrames(NamedTuple):
    """Frames as steps left them: [frames] each; hidden: [frames, dim], text: [frames, 2 *
    text_dim].
    """

    code: Ints
    move: Ints
    silent: Ints
    hidden: Floats
    text: Floats


RENDERING: Final = tuple_of(
    *(Rendering, floats(2), floats(2), floats(1), *4 * (INTEGER_PRODUCT,)),
    *(floats(2), INTEGER_PRODUCT, ints(1)),
)
RAW_FRAMES: Final = tuple_of(RawFrames, *3 * (ints(1),), floats(2), floats(2))


@part
def _least(distances: Floats) -> int:
    found = 0
    for entry in range(1, len(distances)):
        if distances[entry] < distances[found]:
            found = entry
    return found


@compiled(
    *(RENDERING, RAW_FRAMES, floats(3), FLOAT, INT, FLOAT),
    types.Array(types.int16, 2, "C"),
)
def render(
    net: Rendering, raw: RawFrames, noise: Floats, warmth: np.float32, top_k: int,
    eps: np.float32, codes: Shorts,
) -> None:  # fmt: skip
    """Codes [frames, 4] of frames; noise: [frames, 1, energies]."""
    frames, dim = raw.hidden.shape
    energies, wide = noise.shape[2], len(net.gate.bias) // 2
    moved, coded = np.empty((frames, dim), np.float32), np.empty((frames, dim), np.float32)
    summed, normed = np.empty((frames, dim), np.float32), np.empty((frames, dim), np.float32)
    gates, bent = np.empty((frames, 2 * wide), np.float32), np.empty((frames, wide), np.float32)
    logits = np.empty((frames, energies), np.float32)
    for row in range(frames):
        for branch in range(dim):
            moved[row, branch] = raw.hidden[row, branch] + net.move[raw.move[row], branch]
            coded[row, branch] = net.code[raw.code[row], branch]
    add_norm_rows(moved, coded, net.norm, eps, summed, normed)
    multiply_rounded(normed, net.gate, gates)
    swiglu_rows(gates, bent)
    multiply_rounded(bent, net.down, normed)
    for row in range(frames):
        for branch in range(dim):
            summed[row, branch] += normed[row, branch]
    multiply_rounded(summed, net.head, logits)
    drawn = np.empty((frames, 1), np.int64)
    warm, most = np.full(frames, warmth, np.float32), np.full(frames, top_k, np.int64)
    draw_codes(logits, noise, 0, warm, most, drawn)

    told, distances = raw.text.copy(), np.empty((frames, len(net.entries)), np.float32)
    multiply_rounded(told, net.first, distances)
    for row in range(frames):
        codes[row, 0], codes[row, 1] = raw.code[row], drawn[row, 0]
        entry = _least(distances[row])
        codes[row, 2] = entry
        for at in range(told.shape[1]):
            told[row, at] -= net.entries[entry, at]
    multiply_rounded(told, net.second, distances)
    for row in range(frames):
        codes[row, 3] = _least(distances[row])
        if raw.silent[row] > 0:
            for book in range(codes.shape[1]):
                codes[row, book] = net.silence[book]


@dataclass(frozen=True)
class CompiledRender:
    """Renders frames of a net whose products are halved. draw: the number of energy's draw."""

    net: Rendering
    draw: int
    warmth: float
    top_k: int
    eps: float

    def __call__(self, raw: Mapping[str, Tensor]) -> Shorts:
        """Codes [frames, 4] of what `Vesper.render` is given."""
        known = {name: tensor.numpy() for name, tensor in raw.items()}
        frames = len(known["code"])
        noise = torch.empty(frames, 1, len(self.net.code))
        numbers: Floats = noise.numpy()
        even_rows(known["seed"], known["frame"], self.draw, numbers[:, 0])
        to_gumbel(noise)  # torch's logarithms, which have other last bits
        given = {name: known[name] for name in ("code", "move", "silent", "hidden")}
        known_frames = RawFrames(**given, text=known["text"].reshape(frames, -1))
        codes = np.empty((frames, len(self.net.silence)), np.int16)
        how = np.float32(self.warmth), self.top_k, np.float32(self.eps)
        render(self.net, known_frames, numbers, *how, codes)
        return codes
