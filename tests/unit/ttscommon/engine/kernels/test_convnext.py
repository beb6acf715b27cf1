"""The compiled parts of a ConvNeXt block against torch."""

import numpy as np
import torch
from torch.nn.functional import gelu, layer_norm

from ttscommon.engine.kernels.convnext_numba import bent, normed


def test_rows_are_gated_as_torch_does_however_far_their_numbers_are() -> None:
    near = 4 * torch.randn(32, generator=torch.Generator().manual_seed(0))
    far = torch.tensor([-1e4, -30.0, 0.0, 30.0, 1e4])
    for x, off in ((near, 2e-6), (far, 1e-3)):
        found = x.numpy().copy()[None]
        bent(found)
        torch.testing.assert_close(torch.from_numpy(found[0]), gelu(x), rtol=2e-6, atol=off)


def test_a_row_is_normed_as_torch_does() -> None:
    x, weight, bias = torch.randn(3, 37, generator=torch.Generator().manual_seed(1))
    expected, found = layer_norm(x, x.shape, weight, bias), x.numpy().copy()
    normed(found, weight.numpy(), bias.numpy(), np.float32(1e-5))
    torch.testing.assert_close(torch.from_numpy(found), expected, rtol=2e-6, atol=2e-6)
