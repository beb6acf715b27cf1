"""Tensors as Kyutai stores them."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ttscommon.engine.nn.weights import Source


class Alpha(Source):
    """The weights of a norm, which lie in the last of three dimensions."""

    def shapes(self, whole: Sequence[int]) -> dict[str, tuple[int, ...]]:
        return {self.names[0]: (1, 1, *whole)}

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        return parts[0].flatten()


def rows_of(names: Sequence[str], each: int) -> Source:
    """A parameter that is so many rows of each of these."""
    return Source(tuple(names), (each,) * len(names))
