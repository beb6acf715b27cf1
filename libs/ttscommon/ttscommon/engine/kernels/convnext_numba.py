"""Parts of compiled loops over ConvNeXt blocks; see `compiled`."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ttscommon.engine.kernels.compiled import part

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


def numbers(x: Tensor | None) -> Floats:
    """Of a tensor that is there, contiguous."""
    assert x is not None
    return np.ascontiguousarray(x.detach().numpy())


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


@part
def _erf(x: np.float32) -> np.float32:
    near = _FAR if x > _FAR else (-_FAR if x < -_FAR else x)
    z = near * near
    above = ((((_A13 * z + _A11) * z + _A9) * z + _A7) * z + _A5) * z + _A3
    below = (((_B8 * z + _B6) * z + _B4) * z + _B2) * z + _B0
    return near * (above * z + _A1) / below


@part
def bent(x: Floats) -> None:
    """The exact gelu of rows in place, by the error function."""
    rows, size = x.shape
    for row in range(rows):
        for at in range(size):
            one = x[row, at] * _HALF
            x[row, at] = one + one * _erf(x[row, at] * _ROOT_HALF)
