"""The delay pattern: each codebook of a frame stands so many rows behind the frame's first.

A talker draws rows, and a row holds codes of several frames (MusicGen, Copet et al., 2023, names
it the delay pattern). Rows are what is logged, since a successor goes on from them, and frames are
what a codec decodes. No torch here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ttscommon.wire.fields import Array


@dataclass(frozen=True)
class DelayPattern:
    """Codebook c of frame f stands in row f + delays[c]; the least delay is 0."""

    delays: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.delays or min(self.delays):
            raise ValueError("the first codes of a frame stand in the row of its number")

    @classmethod
    def even(cls, codebooks: int) -> DelayPattern:
        """A row more for each codebook."""
        return cls(tuple(range(codebooks)))

    @property
    def most(self) -> int:
        """Rows that a frame's last codes stand behind its first: so many more rows than frames."""
        return max(self.delays)

    def frames(self, rows: Array) -> Array:
        """Rows [rows, codebooks] -> the frames [rows - most, codebooks] that all codes are of."""
        count = max(0, len(rows) - self.most)
        columns = [rows[d : d + count, c] for c, d in enumerate(self.delays)]
        return np.stack(columns, 1)

    def rows(self, frames: Array, before: int, after: int) -> Array:
        """The inverse: [frames, codebooks] -> [frames + most, codebooks].

        before, after: the ids where a codebook has not begun, and where it is over.
        """
        count = len(frames)
        found = np.full((count + self.most, len(self.delays)), after, frames.dtype)
        for codebook, delay in enumerate(self.delays):
            found[:delay, codebook] = before
            found[delay : delay + count, codebook] = frames[:, codebook]
        return found
