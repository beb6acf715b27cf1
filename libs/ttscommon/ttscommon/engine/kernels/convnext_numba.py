"""`convnext` for processors, each in one compiled loop; see `compiled`."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ttscommon.engine.kernels.compiled import FLOAT, INT, compiled, floats, part

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

_ZERO: Final = np.float32(0.0)
_HALF: Final = np.float32(0.5)
_ONE: Final = np.float32(1.0)
_ROOT_HALF: Final = np.float32(0.5**0.5)
# The error function as Eigen and XLA have it, within 5e-7: a ratio of polynomials up to 4.
_FAR: Final = np.float32(4.0)
_A1: Final = np.float32(-1.60960333262415e-02)
_A3: Final = np.float32(-2.95459980854025e-03)
_A5: Final = np.float32(-7.34990630326855e-04)
_A7: Final = np.float32(-5.69250639462346e-05)
_A9: Final = np.float32(-2.10102402082508e-06)
_A11: Final = np.float32(2.77068142495902e-08)
_A13: Final = np.float32(-2.72614225801306e-10)
_B0: Final = np.float32(-1.42647390514189e-02)
_B2: Final = np.float32(-7.37332916720468e-03)
_B4: Final = np.float32(-1.68282697438203e-03)
_B6: Final = np.float32(-2.13374055278905e-04)
_B8: Final = np.float32(-1.45660718464996e-05)


def mix_norm(padded: Tensor, convolution: nn.Conv1d, norm: nn.LayerNorm) -> Tensor:
    """See `convnext.mix_norm`."""
    (batch, steps, size), kernel = padded.shape, convolution.kernel_size[0]
    out = np.empty((batch, steps - kernel + 1, size), np.float32)
    taps, bias = numbers(convolution.weight), numbers(convolution.bias)
    _mix_norm(numbers(padded), taps, bias, *_of(norm), out)
    return torch.from_numpy(out)


def gelu(x: Tensor) -> Tensor:
    """See `convnext.gelu`."""
    out = numbers(x)
    _gelu(out.reshape(-1, x.shape[-1]))
    return torch.from_numpy(out)


def add_scaled(padded: Tensor, first: int, scale: Tensor, added: Tensor) -> Tensor:
    """See `convnext.add_scaled`."""
    out = np.empty(added.shape, np.float32)
    _add_scaled(numbers(padded), first, numbers(scale), numbers(added), out)
    return torch.from_numpy(out)


def numbers(x: Tensor | None) -> Floats:
    """Of a tensor that is there, contiguous."""
    assert x is not None
    return np.ascontiguousarray(x.detach().numpy())


def _of(norm: nn.LayerNorm) -> tuple[Floats, Floats, np.float32]:
    return numbers(norm.weight), numbers(norm.bias), np.float32(norm.eps)


@part
def normed(x: Floats, weight: Floats, bias: Floats, eps: np.float32) -> None:
    """One row in place."""
    size = np.float32(len(x))
    total = _ZERO
    for at in range(len(x)):
        total += x[at]
    mean = total / size
    spread = _ZERO
    for at in range(len(x)):
        spread += (x[at] - mean) * (x[at] - mean)
    scale = _ONE / np.sqrt(spread / size + eps)
    for at in range(len(x)):
        x[at] = (x[at] - mean) * scale * weight[at] + bias[at]


@compiled(floats(3), floats(3), floats(1), floats(1), floats(1), FLOAT, floats(3))
def _mix_norm(
    padded: Floats,
    weight: Floats,
    bias: Floats,
    norm_weight: Floats,
    norm_bias: Floats,
    eps: np.float32,
    out: Floats,
) -> None:
    (batch, steps, size), kernel = out.shape, weight.shape[2]
    taps = np.empty((kernel, size), np.float32)
    for tap in range(kernel):
        for at in range(size):
            taps[tap, at] = weight[at, 0, tap]
    for row in range(batch):
        for step in range(steps):
            for at in range(size):
                out[row, step, at] = bias[at]
            for tap in range(kernel):
                for at in range(size):
                    out[row, step, at] += padded[row, step + tap, at] * taps[tap, at]
            normed(out[row, step], norm_weight, norm_bias, eps)


@part
def _erf(x: np.float32) -> np.float32:
    near = _FAR if x > _FAR else (-_FAR if x < -_FAR else x)
    z = near * near
    above = ((((_A13 * z + _A11) * z + _A9) * z + _A7) * z + _A5) * z + _A3
    below = (((_B8 * z + _B6) * z + _B4) * z + _B2) * z + _B0
    return near * (above * z + _A1) / below


@part
def bent(x: Floats) -> None:
    """`gelu` of rows in place."""
    rows, size = x.shape
    for row in range(rows):
        for at in range(size):
            one = x[row, at] * _HALF
            x[row, at] = one + one * _erf(x[row, at] * _ROOT_HALF)


@compiled(floats(2))
def _gelu(x: Floats) -> None:
    bent(x)


@compiled(floats(3), INT, floats(1), floats(3), floats(3))
def _add_scaled(padded: Floats, first: int, scale: Floats, added: Floats, out: Floats) -> None:
    batch, steps, size = added.shape
    for row in range(batch):
        for step in range(steps):
            for at in range(size):
                more = scale[at] * added[row, step, at]
                out[row, step, at] = padded[row, first + step, at] + more
