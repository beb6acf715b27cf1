"""Min-p (Nguyen et al., 2024): ids that are far less likely than the likeliest are out."""

from __future__ import annotations

from typing import Final

from torch import Tensor

from talker.sampling.rules import Rules
from talker.sampling.settings import Settings

# Finite, so that a row is not taken for one whose network failed; no draw reaches it.
_OUT: Final = -1e30


def without_unlikely(logits: Tensor, settings: Settings, rules: Rules, min_p: Tensor) -> Tensor:
    """Logits [rows, ids] with those of ids out whose probability is under min_p [rows] times that
    of the likeliest, by temperature and penalty; a row of 0 stays as it is.

    Before top-k and top-p, as vLLM has it: both then count what is left.
    """
    x = rules.punished(logits.float())
    allowed = x.masked_fill(rules.forbidden(x), _OUT)
    margin = settings.temperature * min_p.clamp(min=1e-30).log()
    least = allowed.amax(-1) + margin
    return logits.masked_fill((min_p > 0.0)[:, None] & (x < least[:, None]), _OUT)
