"""Drawing ids from logits: one noise, one set of rules, one draw with a CPU and a device branch."""

from ttsfamilies.base.sampling.draw import MOST_IDS, draw_alone, draw_ids
from ttsfamilies.base.sampling.min_p import without_unlikely
from ttsfamilies.base.sampling.noise import Noise
from ttsfamilies.base.sampling.nucleus import draw_unscaled
from ttsfamilies.base.sampling.repetition import draw_unrepeated
from ttsfamilies.base.sampling.rules import Rules
from ttsfamilies.base.sampling.settings import Settings

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
