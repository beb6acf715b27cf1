"""A depthwise convolution written out: values of conv1d, the same bits wherever a step stands."""

import pytest
import torch
from torch import nn

from ttscommon.engine.kernels.convnext import depthwise
from ttscommon.engine.nn import ConvNeXt

SIZE, KERNEL = 48, 7


@torch.inference_mode()
def test_it_is_a_convolution() -> None:
    convolution = nn.Conv1d(SIZE, SIZE, KERNEL, groups=SIZE).eval()
    padded = torch.randn(3, KERNEL - 1 + 20, SIZE)
    expected = convolution(padded.transpose(1, 2)).transpose(1, 2)
    torch.testing.assert_close(depthwise(padded, convolution), expected)


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
