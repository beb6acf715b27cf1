"""The order in which Turbo and Nano limit their draws."""

from __future__ import annotations

from torch import Tensor

from ttsfamilies.base.sampling import Rules, Settings
from ttsfamilies.base.sampling.limits import NEVER, keep_mass, keep_top


def penalised_last(logits: Tensor, settings: Settings, rules: Rules) -> Tensor:
    """Logits [rows, ids] by temperature, top-k and top-p, and then with the penalty on those that
    are left; of a row of temperature 0 as they are, where one id is left.
    """
    assert settings.top_k is not None
    assert settings.top_p is not None
    allowed = logits.masked_fill(rules.forbidden(logits), NEVER)
    warm = settings.temperature > 0
    scaled = allowed / settings.temperature.where(warm, 1.0)[:, None]
    kept = keep_mass(keep_top(scaled, settings.top_k), warm.float(), settings.top_p)
    return rules.punished(kept).where(warm[:, None], allowed)
