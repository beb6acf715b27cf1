"""Limits of a draw, whatever the sampling parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final, Self

import torch
from torch import Tensor

# Top-k and top-p: which ids a draw may still be. Nothing here reads a value on the host.


NEVER: Final = float("-inf")


def keep_top(x: Tensor, top_k: Tensor) -> Tensor:
    """Everything but each row's `top_k` largest becomes -inf; 0 keeps all, ties stay in.

    x: [rows, ids] float32; top_k: [rows] int64.
    """
    most = x.shape[1]
    kept = top_k.masked_fill(top_k < 1, most).clamp(max=most)
    least = x.sort(-1, descending=True).values.gather(1, kept[:, None] - 1)
    return x.masked_fill(x < least, NEVER)


def keep_mass(x: Tensor, temperature: Tensor, top_p: Tensor) -> Tensor:
    """The least likely that together hold no more than 1 - top_p become -inf; 1 keeps all.

    x: [rows, ids] float32; temperature, top_p: [rows] float32. Rows of temperature 0 keep all.
    """
    rising = x.sort(-1).values
    share = (rising / temperature.clamp(min=1e-9)[:, None]).softmax(-1)
    gone = share.cumsum(-1) <= (1 - top_p)[:, None]
    first = gone.sum(-1, keepdim=True).clamp(max=x.shape[1] - 1)
    limits = (top_p < 1) & (temperature > 0)
    least = rising.gather(1, first)[:, 0].masked_fill(~limits, NEVER)
    return x.masked_fill(x < least[:, None], NEVER)


@dataclass(frozen=True)
class Rules:
    """Penalty and prohibitions; they hold under greedy choice as well.

    seen: [rows, vocabulary] bool, ids drawn so far; penalty: [rows] float32, 1 for none;
    made: [rows] int64, frames so far; suppressed: [vocabulary] bool, ids that never come;
    end: the id that ends a sequence, not within the first `least_frames`.
    """

    seen: Tensor
    penalty: Tensor
    made: Tensor
    suppressed: Tensor
    end: int
    least_frames: int

    def applied(self, logits: Tensor) -> Tensor:
        """Logits after the penalty, -inf where an id may not be drawn."""
        return self.punished(logits).masked_fill(self.forbidden(logits), NEVER)

    def punished(self, logits: Tensor) -> Tensor:
        """Logits after the penalty on ids drawn before: [rows, vocabulary] float32."""
        penalty = self.penalty[:, None]
        lower = torch.where(logits < 0, logits * penalty, logits / penalty)
        return torch.where(self.seen, lower, logits)

    def forbidden(self, logits: Tensor) -> Tensor:
        """[rows, vocabulary] bool: ids that may not be drawn now."""
        ids = torch.arange(logits.shape[1], device=logits.device)
        early = (self.made < self.least_frames)[:, None] & (ids == self.end)
        return early | self.suppressed


@dataclass(frozen=True)
class Settings:
    """[rows] each. temperature: float32, 0 is greedy. top_k: int64, 0 for all. top_p: float32,
    1 for all. None leaves a limit out for all rows. Ties at the edge of either stay in.
    """

    temperature: Tensor
    top_k: Tensor | None = None
    top_p: Tensor | None = None

    @classmethod
    def of(cls, state: Mapping[str, Tensor], part: str = "") -> Self:
        """What a slot's state calls so, behind `part`."""
        return cls(*(state[f"{part}{field.name}"] for field in fields(cls)))

    def rows(self, index: Tensor) -> Settings:
        """The settings of some of the rows."""
        return Settings(
            self.temperature[index],
            None if self.top_k is None else self.top_k[index],
            None if self.top_p is None else self.top_p[index],
        )


# Min-p (Nguyen et al., 2024): ids that are far less likely than the likeliest are out.


# Finite, so that a row is not taken for one whose network failed; no draw reaches it.
OUT: Final = -1e30


def without_unlikely(logits: Tensor, settings: Settings, rules: Rules, min_p: Tensor) -> Tensor:
    """Logits [rows, ids] with those of ids out whose probability is under min_p [rows] times that
    of the likeliest, by temperature and penalty; a row of 0 stays as it is.

    Before top-k and top-p, as vLLM has it: both then count what is left.
    """
    x = rules.punished(logits.float())
    x = x.masked_fill(rules.forbidden(x), OUT)
    return logits.masked_fill(_unlikely(x, settings.temperature, min_p), OUT)


def unlikely(x: Tensor, temperature: Tensor, min_p: Tensor) -> Tensor:
    """The same of logits [rows, ids] that are punished already; none is forbidden but by OUT."""
    return x.masked_fill(_unlikely(x, temperature, min_p), OUT)


def _unlikely(x: Tensor, temperature: Tensor, min_p: Tensor) -> Tensor:
    """[rows, ids] bool."""
    least = x.amax(-1) + temperature * min_p.clamp(min=1e-30).log()
    return (min_p > 0.0)[:, None] & (x < least[:, None])
