"""A deployment's tolerance: the guesses of a drafter that it takes for its model's draws."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Leniency:
    """tries: how often the model may draw a frame to meet a guess, tau in VADUSA. cents: how far
    the pitch of a guess may be from that of a draw, where a codebook holds pitch.
    """

    tries: int = 1
    cents: float = 0.0

    def __bool__(self) -> bool:
        """Whether it changes anything; without it, guesses change nothing but the speed."""
        return self.tries > 1 or self.cents > 0
