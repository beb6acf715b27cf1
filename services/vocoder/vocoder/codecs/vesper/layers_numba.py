"""The loops between the vesper decoder's layers, compiled; see `layers.through`."""

from __future__ import annotations

from ttscommon.engine.kernels.compiled import INT, compiled, floats, ints
from ttscommon.engine.kernels.convnext_numba import Floats, Ints


@compiled(floats(3), INT, floats(1), floats(3), INT, floats(3))
def follow(
    padded: Floats, first: int, scale: Floats, added: Floats, past: int, after: Floats
) -> None:
    """`convnext.add_scaled` into the steps of `after` that follow its past."""
    batch, steps, size = added.shape
    for row in range(batch):
        for step in range(steps):
            for at in range(size):
                more = scale[at] * added[row, step, at]
                after[row, past + step, at] = padded[row, first + step, at] + more


@compiled(floats(4), ints(1), floats(4))
def keep(seen: Floats, lengths: Ints, after: Floats) -> None:
    """The steps of each block's input that are to be remembered: [blocks + 1, batch, past + steps,
    size] -> [batch, blocks, past, size].
    """
    batch, count, past, size = after.shape
    for row in range(batch):
        for block in range(count):
            for step in range(past):
                for at in range(size):
                    after[row, block, step, at] = seen[block, row, lengths[row] + step, at]
