"""Layers that look ahead give the same in pieces as at once, as soon as they can."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d, conv_transpose1d, leaky_relu

from ttscommon.engine.nn.flat import flat
from ttsfamilies.base.codec.causal import StreamContext
from ttsfamilies.base.codec.hifigan import Generator, ResidualSizes, Sizes, UpsampleSizes

PLAIN = (ResidualSizes(3, (1, 2), paired=False), ResidualSizes(7, (3, 5), paired=False))
PAIRED = (ResidualSizes(3, (1, 3), paired=True), ResidualSizes(5, (2, 1), paired=True))
STAGES = {
    "plain": (UpsampleSizes(16, 8, PLAIN), UpsampleSizes(8, 4, PLAIN)),
    "paired": (UpsampleSizes(12, 8, PAIRED), UpsampleSizes(4, 2, PAIRED)),
    "no overlap": (UpsampleSizes(4, 4, PLAIN),),
}


def sizes(kind: str) -> Sizes:
    return Sizes(latent=3, channels=8, speaker=0, stages=STAGES[kind])


def drawn(kind: str) -> Generator:
    torch.manual_seed(1)
    return Generator(sizes(kind)).double().requires_grad_(False)


def whole(net: Generator, z: Tensor) -> Tensor:
    """As the paper has it: every layer pads its input with zeros."""
    x, count = _padded(net.conv_pre, z), len(net.resblocks) // len(net.ups)
    for index, (stage, up) in enumerate(zip(net.sizes.stages, net.ups, strict=True)):
        assert isinstance(up, nn.ConvTranspose1d)
        around = (stage.kernel - stage.rate) // 2
        x = conv_transpose1d(leaky_relu(x, 0.1), up.weight, up.bias, stage.rate, around)
        blocks = net.resblocks[index * count : (index + 1) * count]
        x = torch.stack([_block(block, x) for block in blocks]).sum(0) / count
    return torch.tanh(_padded(net.conv_post, leaky_relu(x, 0.01)))[0, 0]


def _block(block: Any, x: Tensor) -> Tensor:
    if hasattr(block, "convs"):
        groups = [[conv] for conv in block.convs]
    else:
        groups = [list(pair) for pair in zip(block.convs1, block.convs2, strict=True)]
    for convs in groups:
        found = x
        for conv in convs:
            found = _padded(conv, leaky_relu(found, 0.1))
        x = x + found
    return x


def _padded(conv: nn.Module, x: Tensor) -> Tensor:
    assert isinstance(conv, nn.Conv1d)
    dilation = conv.dilation[0]
    around = dilation * (conv.kernel_size[0] - 1) // 2
    return conv1d(x, conv.weight, conv.bias, padding=around, dilation=dilation)


def pieces(net: Generator, z: Tensor, cuts: Sequence[int]) -> list[Tensor]:
    """Samples of each piece, the last of which ends the sound."""
    kept, found, ends = None, [], [*cuts, z.shape[-1]]
    for number, (first, last) in enumerate(pairwise((0, *ends))):
        context = StreamContext(kept, ends=number == len(cuts))
        found.append(net(z[..., first:last], None, context))
        kept = context.kept
    return found


@pytest.mark.parametrize("kind", STAGES)
@pytest.mark.parametrize(
    ("frames", "cuts"),
    [
        *((21, ()), (21, (1, 2, 3, 4)), (21, (9,)), (21, (5, 13, 14)), (21, (20,))),
        # Shorter than what layers reach.
        *((1, ()), (1, (1,)), (2, (1,)), (5, (1,)), (5, (5,))),
    ],
)
def test_pieces_are_the_whole_and_as_long_as_the_lag_says(
    kind: str, frames: int, cuts: tuple[int, ...]
) -> None:
    net, z = drawn(kind), torch.randn(1, 3, frames, dtype=torch.float64)
    expected = whole(net, z)
    flat(net)
    found = pieces(net, z, cuts)
    torch.testing.assert_close(torch.cat(found), expected, atol=1e-12, rtol=0)
    rate, given = len(expected) // frames, 0
    for at, piece in zip(cuts, found, strict=False):
        given += len(piece)
        assert given == max(0, at * rate - net.sizes.lag)


def test_what_is_kept_does_not_grow() -> None:
    net, z = drawn("plain"), torch.randn(1, 3, 200, dtype=torch.float64)
    flat(net)
    kept, sizes_seen = None, set()
    for at in range(40, 200, 7):
        context = StreamContext(kept, ends=False)
        net(z[..., at : at + 7], None, context)
        kept = context.kept
        sizes_seen.add(sum(x.numel() for x in kept))
        assert all(x.untyped_storage().nbytes() == x.nbytes for x in kept)
    assert len(sizes_seen) <= 3
