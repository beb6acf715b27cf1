"""The residual codes of a frame in one launch, where a depth transformer fits the kernel for it."""

from __future__ import annotations

from torch import Tensor

from ttsfamilies.base.kernels.attention import processors
from ttsfamilies.base.kernels.stacked import Stacked
from ttsfamilies.base.sampling import Noise, Settings


def predict(weights: Stacked, inputs: Tensor, noise: Noise, settings: Settings) -> Tensor:
    """Draw the residual codes of a frame, one after the other, in one launch.

    inputs: [2, rows, outer dim], the backbone's state and codebook 0 embedded. The twin is
    DepthTransformer.forward. Returns [rows, residuals] int64.
    """
    from ttsfamilies.base.kernels import predictor_triton

    return predictor_triton.predict(weights, inputs, noise, settings, processors(inputs.device))
