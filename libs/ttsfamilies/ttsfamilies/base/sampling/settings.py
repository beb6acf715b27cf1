"""A request's choices about its draws."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Settings:
    """[rows] each. temperature: float32, 0 is greedy. top_k: int64, 0 for all. top_p: float32,
    1 for all. None leaves a limit out for all rows. Ties at the edge of either stay in.
    """

    temperature: Tensor
    top_k: Tensor | None = None
    top_p: Tensor | None = None

    def rows(self, index: Tensor) -> Settings:
        """The settings of some of the rows."""
        return Settings(
            self.temperature[index],
            None if self.top_k is None else self.top_k[index],
            None if self.top_p is None else self.top_p[index],
        )
