"""ConvNeXt blocks: a convolution written out, and the gate of their compiled loops."""

import pytest
import torch
from torch import nn

from ttscommon.engine.kernels.convnext import depthwise
from ttscommon.engine.kernels.convnext_numba import bent
from ttscommon.engine.nn import ConvNeXt

SIZE, KERNEL = 48, 7


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 8, 13])
@torch.inference_mode()
def test_a_step_has_the_same_bits_in_any_part_of_any_batch(steps: int) -> None:
    convolution = nn.Conv1d(SIZE, SIZE, KERNEL, groups=SIZE).eval()
    padded = torch.randn(4, KERNEL - 1 + 40, SIZE)
    whole = depthwise(padded, convolution)
    for row in range(len(padded)):
        for begin in range(40 - steps):
            part = padded[row : row + 1, begin : begin + KERNEL - 1 + steps]
            alone = depthwise(part, convolution)
            assert torch.equal(alone[0], whole[row, begin : begin + steps])


def test_a_block_is_the_same_in_training_and_in_use() -> None:
    block, x = ConvNeXt(SIZE, 5, 2), torch.randn(2, 9, SIZE)
    learning = block.train()(x)
    torch.testing.assert_close(block.eval()(x), learning)


@pytest.mark.parametrize(
    ("x", "off"),
    [
        (4 * torch.randn(32, generator=torch.Generator().manual_seed(0)), 2e-6),
        (torch.tensor([-1e4, -30.0, 0.0, 30.0, 1e4]), 1e-3),
    ],
    ids=["near", "far"],
)
def test_rows_are_gated_as_torch_does_however_far_their_numbers_are(
    x: torch.Tensor, off: float
) -> None:
    found = x.numpy().copy()[None]
    bent(found)
    expected = nn.functional.gelu(x)
    torch.testing.assert_close(torch.from_numpy(found[0]), expected, rtol=2e-6, atol=off)
