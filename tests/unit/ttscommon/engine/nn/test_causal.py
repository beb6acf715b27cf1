"""Causal convolutions go on where they were cut, whatever the padding."""

from collections.abc import Callable

import pytest
import torch

from ttscommon.engine.nn import CausalConv1d, CausalUpsample1d, steps_before

CONVOLUTIONS: dict[str, Callable[[], CausalConv1d | CausalUpsample1d]] = {
    "plain": lambda: CausalConv1d(3, 4, 7),
    "dilated": lambda: CausalConv1d(3, 3, 3, dilation=5),
    "depthwise": lambda: CausalConv1d(4, 4, 5, groups=4),
    "pointwise": lambda: CausalConv1d(3, 4, 1),
    "up, overlapping": lambda: CausalUpsample1d(3, 2, 8, 4),
    "up, apart": lambda: CausalUpsample1d(3, 2, 2, 2),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_steps_equal_one_shot(name: str) -> None:
    torch.manual_seed(0)
    net = CONVOLUTIONS[name]().double()
    rate = net.rate if isinstance(net, CausalUpsample1d) else 1
    x = torch.randn(1, net.in_channels, 20).double()
    tail, found = x.new_zeros(1, net.in_channels, net.tail_size), []
    for part in x.split([1, 6, 2, 11], 2):
        padded = torch.nn.functional.pad(part, (0, 3), value=9.0)
        out, tail = net.step(padded, torch.tensor([part.shape[2]]), tail)
        found.append(out[..., : part.shape[2] * rate])
    assert (torch.cat(found, 2) - net(x)).abs().max() < 1e-12


def test_tails_are_cut_where_each_stream_ends() -> None:
    x = torch.arange(14.0).reshape(2, 1, 7)
    tails = steps_before(x, torch.tensor([1, 4]), 3)
    assert tails[:, 0].tolist() == [[1.0, 2.0, 3.0], [11.0, 12.0, 13.0]]


def test_longer_overlaps_are_refused() -> None:
    with pytest.raises(ValueError, match="one earlier input"):
        CausalUpsample1d(1, 1, 9, 3)
