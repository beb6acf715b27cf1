"""`blocks` for processors, each in one compiled loop; see `compiled`."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ttscommon.engine.kernels.compiled import (
    FLOAT,
    compiled,
    compiled_as_written,
    exp,
    floats,
    strided,
)
from ttscommon.engine.kernels.convnext_numba import bent

Floats = NDArray[np.float32]

_ONE: Final = np.float32(1.0)


def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """The second of what `blocks.add_norm` gives."""
    normed = np.empty(x.shape, np.float32)
    norm_rows(_rows(x), weight.detach().numpy(), np.float32(eps), _rows(normed))
    return torch.from_numpy(normed)


def add_norm(x: Tensor, added: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """See `blocks.add_norm`."""
    summed, normed = np.empty(x.shape, np.float32), np.empty(x.shape, np.float32)
    rows, scale = (_rows(x), _rows(added)), weight.detach().numpy()
    add_norm_rows(*rows, scale, np.float32(eps), _rows(summed), _rows(normed))
    return torch.from_numpy(summed), torch.from_numpy(normed)


def swiglu(gate_up: Tensor) -> Tensor:
    """See `blocks.swiglu`."""
    out = np.empty((*gate_up.shape[:-1], gate_up.shape[-1] // 2), np.float32)
    swiglu_rows(_rows(gate_up), _rows(out))
    return torch.from_numpy(out)


def gelu(x: Tensor) -> Tensor:
    """See `blocks.gelu`."""
    out = np.array(x.numpy(), order="C")
    gelu_rows(out.reshape(-1, x.shape[-1]))
    return torch.from_numpy(out)


def turned(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """[..., heads, size], of which neighbouring channels turn together, by [..., size / 2]."""
    heads, tables = x.numpy(), (_rows(cosines), _rows(sines))
    if heads.ndim != 3:
        heads = heads.reshape(-1, *x.shape[-2:])
    out = np.empty(x.shape, np.float32)
    turn_heads(heads, *tables, out.reshape(heads.shape))
    return torch.from_numpy(out)


def _rows(x: Tensor | Floats) -> Floats:
    """[..., size] -> [rows, size], contiguous; a view costs numpy a fraction of torch's time."""
    whole: Floats = np.ascontiguousarray(x)
    return whole if whole.ndim == 2 else whole.reshape(-1, whole.shape[-1])


@compiled(floats(2), floats(1), FLOAT, floats(2))
def norm_rows(x: Floats, weight: Floats, eps: np.float32, normed: Floats) -> None:
    rows, size = x.shape
    for row in range(rows):
        total = np.float32(0.0)
        for at in range(size):
            total += x[row, at] * x[row, at]
        scale = _ONE / np.sqrt(total / np.float32(size) + eps)
        for at in range(size):
            normed[row, at] = x[row, at] * scale * weight[at]


@compiled(floats(2), floats(2), floats(1), FLOAT, floats(2), floats(2))
def add_norm_rows(
    x: Floats, added: Floats, weight: Floats, eps: np.float32, summed: Floats, normed: Floats
) -> None:
    rows, size = x.shape
    for row in range(rows):
        total = np.float32(0.0)
        for at in range(size):
            one = x[row, at] + added[row, at]
            summed[row, at] = one
            total += one * one
        scale = _ONE / np.sqrt(total / np.float32(size) + eps)
        for at in range(size):
            normed[row, at] = summed[row, at] * scale * weight[at]


@compiled(floats(2), floats(2))
def swiglu_rows(gate_up: Floats, out: Floats) -> None:
    rows, size = out.shape
    for row in range(rows):
        for at in range(size):
            gate = gate_up[row, at]
            out[row, at] = gate / (_ONE + exp(-gate)) * gate_up[row, size + at]


@compiled(floats(2))
def gelu_rows(x: Floats) -> None:
    bent(x)


@compiled_as_written(strided(floats(3)), floats(2), floats(2), floats(3))
def turn_heads(x: Floats, cosines: Floats, sines: Floats, out: Floats) -> None:
    rows, heads, size = x.shape
    for row in range(rows):
        for head in range(heads):
            for pair in range(size // 2):
                cosine, sine = cosines[row, pair], sines[row, pair]
                first, second = x[row, head, 2 * pair], x[row, head, 2 * pair + 1]
                out[row, head, 2 * pair] = first * cosine - second * sine
                out[row, head, 2 * pair + 1] = first * sine + second * cosine
