"""Drawing ids from logits: one noise, one set of rules, one draw with a CPU and a device branch."""

from ttsfamilies.base.sampling.draw import (
    MOST_IDS,
    draw_alone,
    draw_ids,
    draw_unrepeated,
    draw_unscaled,
)
from ttsfamilies.base.sampling.noise import Noise
from ttsfamilies.base.sampling.rules import Rules, Settings, without_unlikely

__all__ = [
    "MOST_IDS",
    "Noise",
    "Rules",
    "Settings",
    "draw_alone",
    "draw_ids",
    "draw_unrepeated",
    "draw_unscaled",
    "without_unlikely",
]
