"""Min-p (Nguyen et al., 2024): ids that are far less likely than the likeliest are out."""

from __future__ import annotations

from typing import Final

from torch import Tensor

from ttsfamilies.base.sampling.rules import Rules
from ttsfamilies.base.sampling.settings import Settings

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
